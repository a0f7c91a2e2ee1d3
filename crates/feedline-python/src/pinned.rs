//! Memory of batches that Python allocates: tensors of torch in page-locked memory.
//!
//! Workers ask for it once per batch and column, which takes the interpreter's lock for a moment. The tensor that a user
//! gets is a view of the same storage, so torch knows of every copy to a device that reads it, and does not give it out
//! again before.

#![expect(unsafe_code, reason = "the memory belongs to a Python object; every block says why it is sound")]

use std::ptr::NonNull;
use std::sync::Arc;

use feedline::batch::{BatchMemory, MemoryBlock};
use pyo3::prelude::*;

/// A function of Python: number of bytes → a tensor of bytes.
#[derive(Debug)]
pub(crate) struct PythonMemory {
    allocate: Py<PyAny>,
}

impl PythonMemory {
    pub(crate) fn shared(allocate: Py<PyAny>) -> Arc<dyn BatchMemory> {
        Arc::new(PythonMemory { allocate })
    }
}

impl BatchMemory for PythonMemory {
    fn allocate(&self, length: usize) -> Result<Box<dyn MemoryBlock>, String> {
        let asked = Python::try_attach(|py| {
            let made = self.allocate.bind(py).call1((length,)).and_then(|owner| TensorBlock::of(&owner));
            made.map_err(|error| error.to_string())
        });
        let block = asked.unwrap_or_else(|| Err("Python is ending".to_owned()))?;
        Ok(Box::new(block))
    }
}

/// A tensor's memory.
#[derive(Debug)]
pub(crate) struct TensorBlock {
    owner: Py<PyAny>,
    address: NonNull<u8>,
    length: usize,
}

// SAFETY: plain memory that lives as long as its owner; the owner is a reference that may be dropped on any thread.
unsafe impl Send for TensorBlock {}
// SAFETY: sharing it shares only the address and the reference; reads and writes are governed by whoever holds it.
unsafe impl Sync for TensorBlock {}

impl TensorBlock {
    fn of(owner: &Bound<'_, PyAny>) -> PyResult<Self> {
        let address: usize = owner.call_method0("data_ptr")?.extract()?;
        let length = owner.getattr("nbytes")?.extract()?;
        let none = || pyo3::exceptions::PyMemoryError::new_err("memory at address 0");
        let address = NonNull::new(std::ptr::with_exposed_provenance_mut(address)).ok_or_else(none)?;
        Ok(TensorBlock { owner: owner.clone().unbind(), address, length })
    }

    /// The tensor.
    pub(crate) fn owner(&self) -> &Py<PyAny> {
        &self.owner
    }
}

// SAFETY: torch gives out memory of its own that no other tensor uses while the owner lives, and the bytes of mapped
// pages are initialised; nobody but the batch knows this tensor before the batch is delivered.
unsafe impl MemoryBlock for TensorBlock {
    fn address(&self) -> NonNull<u8> {
        self.address
    }

    fn length(&self) -> usize {
        self.length
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
