//! Memory shared with Python without a copy: `__array_interface__` for NumPy, DLPack for torch, JAX and the rest.
//!
//! The exporting object holds an `Arc` of the memory; the consumer holds the object (NumPy, as the array's base) or a
//! capsule whose deleter holds another `Arc` (DLPack). Dropping it takes no interpreter lock beyond Python's own:
//! memory returns to the pool from the thread that drops it last.

#![expect(unsafe_code, reason = "DLPack is a C interface of raw pointers; every block says why it is sound")]

use std::ffi::{CStr, c_void};
use std::sync::Arc;

use feedline::batch::{Slab, ViewFiles};
use feedline::{Column, DType};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};

use crate::pinned::TensorBlock;

/// Owner that keeps the memory alive.
#[derive(Clone, Debug)]
enum Owner {
    Slab(Arc<Slab>),
    Offsets(Arc<[i64]>),
    Bytes(Arc<Vec<u8>>),
    /// One of the files that views lie in.
    Mapped(Arc<ViewFiles>, usize),
}

/// The mapped files that a column of views lies in.
#[pyclass(module = "feedline._feedline", frozen)]
#[derive(Debug)]
pub(crate) struct MappedFiles(pub(crate) Arc<ViewFiles>);

#[pymethods]
impl MappedFiles {
    /// The bytes of file `number`, which a row of a batch lies in.
    fn file(&self, number: usize) -> PyResult<Buffer> {
        let bytes = self.0.file(number).ok_or_else(|| PyValueError::new_err("no row lies in this file"))?;
        let shape = vec![bytes.len() as i64];
        Ok(Buffer { owner: Owner::Mapped(self.0.clone(), number), dtype: DType::U8, shape })
    }
}

/// One array's memory, exported by `__array_interface__` and `__dlpack__`.
#[pyclass(module = "feedline._feedline", frozen)]
#[derive(Debug)]
pub(crate) struct Buffer {
    owner: Owner,
    dtype: DType,
    shape: Vec<i64>,
}

impl Buffer {
    /// A column's elements.
    pub(crate) fn of_column(column: &Column) -> Self {
        let shape = column.shape.iter().map(|n| *n as i64).collect();
        Buffer { owner: Owner::Slab(column.memory().clone()), dtype: column.dtype, shape }
    }

    /// Offsets of a ragged column.
    pub(crate) fn of_offsets(offsets: &[i64]) -> Self {
        let shape = vec![offsets.len() as i64];
        Buffer { owner: Owner::Offsets(offsets.into()), dtype: DType::I64, shape }
    }

    /// Elements that were made for one array.
    pub(crate) fn of_bytes(bytes: Vec<u8>, dtype: DType, shape: &[u64]) -> Self {
        let shape = shape.iter().map(|n| *n as i64).collect();
        Buffer { owner: Owner::Bytes(Arc::new(bytes)), dtype, shape }
    }

    /// Bytes that were written into a slab.
    pub(crate) fn of_slab(slab: Slab, shape: &[usize]) -> Self {
        let shape = shape.iter().map(|n| *n as i64).collect();
        Buffer { owner: Owner::Slab(Arc::new(slab)), dtype: DType::U8, shape }
    }

    fn address(&self) -> *mut c_void {
        match &self.owner {
            Owner::Slab(slab) => slab.address().cast(),
            Owner::Offsets(offsets) => offsets.as_ptr().cast_mut().cast(),
            Owner::Bytes(bytes) => bytes.as_ptr().cast_mut().cast(),
            // Mapped privately: what Python writes there changes nothing else.
            Owner::Mapped(files, number) => {
                files.file(*number).map_or(std::ptr::null_mut(), |bytes| bytes.as_ptr().cast_mut().cast())
            }
        }
    }
}

#[pymethods]
impl Buffer {
    /// NumPy's array interface, version 3. `bfloat16` is shown as `uint16`, because NumPy has no such type.
    #[getter(__array_interface__)]
    fn array_interface<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("version", 3)?;
        dict.set_item("typestr", typestr(self.dtype))?;
        dict.set_item("shape", PyTuple::new(py, &self.shape)?)?;
        dict.set_item("data", (self.address() as usize, false))?;
        Ok(dict)
    }

    /// The element type's name.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.dtype.name()
    }

    /// Dimensions.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// The tensor whose memory this is, if Python allocated it.
    #[getter]
    fn owner(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let Owner::Slab(slab) = &self.owner else { return None };
        let block = slab.block()?.as_any().downcast_ref::<TensorBlock>()?;
        Some(block.owner().clone_ref(py))
    }

    /// DLPack device: always this machine's CPU memory.
    #[expect(clippy::unused_self, reason = "Python calls it on an object")]
    fn __dlpack_device__(&self) -> (i32, i32) {
        (DEVICE_CPU, 0)
    }

    /// A DLPack capsule: versioned if the consumer supports version 1, else the old kind.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        if stream.is_some() {
            return Err(PyBufferError::new_err("memory of the CPU has no stream"));
        }
        if dl_device.is_some_and(|device| device != (DEVICE_CPU, 0)) {
            return Err(PyBufferError::new_err(
                "this memory is the CPU's; copy it to another device afterwards",
            ));
        }
        if copy == Some(true) {
            return Err(PyBufferError::new_err("nothing is copied here; copy the imported array"));
        }
        if max_version.is_some_and(|version| version.0 >= 1) {
            self.versioned(py)
        } else {
            self.unversioned(py)
        }
    }
}

impl Buffer {
    fn tensor(&self, context: &mut Context) -> Tensor {
        Tensor {
            data: self.address(),
            device_type: DEVICE_CPU,
            device_id: 0,
            dimensions: context.shape.len() as i32,
            dtype: dlpack_type(self.dtype),
            shape: context.shape.as_mut_ptr(),
            strides: context.strides.as_mut_ptr(),
            byte_offset: 0,
        }
    }

    #[expect(clippy::unnecessary_box_returns, reason = "the tensor points into it, so it must not move")]
    fn context(&self) -> Box<Context> {
        let mut strides = vec![1i64; self.shape.len()];
        for at in (1..self.shape.len()).rev() {
            strides[at - 1] = strides[at] * self.shape[at].max(1);
        }
        Box::new(Context { shape: self.shape.clone(), strides, _owner: self.owner.clone() })
    }

    fn versioned<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let mut context = self.context();
        let managed = Box::new(ManagedVersioned {
            major: 1,
            minor: 0,
            tensor: self.tensor(&mut context),
            context: Box::into_raw(context).cast(),
            deleter: Some(delete_versioned),
            flags: 0,
        });
        // The order of the struct's fields is DLPack's; see the assertion on its layout below.
        capsule(py, Box::into_raw(managed).cast(), NAME_VERSIONED, destroy_versioned)
    }

    fn unversioned<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let mut context = self.context();
        let managed = Box::new(Managed {
            tensor: self.tensor(&mut context),
            context: Box::into_raw(context).cast(),
            deleter: Some(delete),
        });
        capsule(py, Box::into_raw(managed).cast(), NAME, destroy)
    }
}

const DEVICE_CPU: i32 = 1;
const NAME: &CStr = c"dltensor";
const NAME_VERSIONED: &CStr = c"dltensor_versioned";

/// Data that a DLPack tensor points to: dimensions, and the owner of the elements.
struct Context {
    shape: Vec<i64>,
    strides: Vec<i64>,
    _owner: Owner,
}

#[repr(C)]
struct ElementType {
    code: u8,
    bits: u8,
    lanes: u16,
}

/// `DLTensor`.
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    dimensions: i32,
    dtype: ElementType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensor`.
#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// `DLManagedTensorVersioned`: version, context, deleter, flags, tensor.
#[repr(C)]
struct ManagedVersioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    flags: u64,
    tensor: Tensor,
}

const _: () =
    assert!(size_of::<Tensor>() == 48 && size_of::<Managed>() == 64 && size_of::<ManagedVersioned>() == 80);

unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: the consumer calls this once, with the pointer we made from boxes in `unversioned`.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Context>()));
    }
}

unsafe extern "C" fn delete_versioned(managed: *mut ManagedVersioned) {
    // SAFETY: the consumer calls this once, with the pointer we made from boxes in `versioned`.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Context>()));
    }
}

/// Runs when a capsule is destroyed. A consumer that took the tensor has renamed the capsule and owns the tensor.
unsafe extern "C" fn destroy(capsule: *mut pyo3::ffi::PyObject) {
    // SAFETY: the interpreter calls this with our capsule, holding its lock; a capsule that still has our name still
    // contains our pointer.
    unsafe {
        if pyo3::ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) == 1 {
            delete(pyo3::ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast());
        }
    }
}

unsafe extern "C" fn destroy_versioned(capsule: *mut pyo3::ffi::PyObject) {
    // SAFETY: as in `destroy`.
    unsafe {
        if pyo3::ffi::PyCapsule_IsValid(capsule, NAME_VERSIONED.as_ptr()) == 1 {
            delete_versioned(pyo3::ffi::PyCapsule_GetPointer(capsule, NAME_VERSIONED.as_ptr()).cast());
        }
    }
}

fn capsule<'py>(
    py: Python<'py>,
    pointer: *mut c_void,
    name: &'static CStr,
    destructor: unsafe extern "C" fn(*mut pyo3::ffi::PyObject),
) -> PyResult<Bound<'py, PyCapsule>> {
    // SAFETY: the pointer is not null, the name is static, the destructor fits the pointer's type; the call returns a
    // new reference or sets an exception.
    unsafe {
        let object = pyo3::ffi::PyCapsule_New(pointer, name.as_ptr(), Some(destructor));
        let object: Bound<'py, PyAny> = Bound::from_owned_ptr_or_err(py, object)?;
        object.cast_into::<PyCapsule>().map_err(|e| PyValueError::new_err(e.to_string()))
    }
}

/// NumPy has no bfloat16: its 16 bits are passed as unsigned numbers, and Python views them as bfloat16.
fn typestr(dtype: DType) -> &'static str {
    dtype.numpy().unwrap_or("<u2")
}

fn dlpack_type(dtype: DType) -> ElementType {
    ElementType { code: dtype.dlpack(), bits: dtype.size() as u8 * 8, lanes: 1 }
}
