//! `feedline._feedline`: the engine for Python. A translator: it converts arguments, releases the interpreter, calls the
//! core, maps errors and hands over memory. No algorithm lives here.

mod dataset;
mod error;
mod handoff;
mod loader;
mod pack;
mod wait;

use pyo3::prelude::*;

/// The compiled module.
#[pymodule(gil_used = false)]
fn _feedline(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<dataset::PyDataset>()?;
    module.add_class::<loader::PyLoader>()?;
    module.add_class::<loader::PyEpoch>()?;
    module.add_class::<handoff::Buffer>()?;
    module.add_class::<pack::PyPackWriter>()?;
    module.add_class::<pack::PackProgress>()?;
    module.add_function(wrap_pyfunction!(pack::pack, module)?)?;
    module.add_function(wrap_pyfunction!(pack::convert, module)?)?;
    module.add_function(wrap_pyfunction!(pack::convert_targets, module)?)?;
    module.add_function(wrap_pyfunction!(pack::kind_of, module)?)?;
    module.add_function(wrap_pyfunction!(pack::run_cli, module)?)?;
    Ok(())
}
