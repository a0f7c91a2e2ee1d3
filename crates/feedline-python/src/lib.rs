//! `feedline._feedline`: the engine for Python. A translator: it converts arguments, releases the interpreter, calls
//! the core, maps errors and passes memory on. It contains no algorithm.

mod dataset;
mod error;
mod handoff;
mod loader;
mod ops;
mod pack;
mod pinned;
mod rows;
mod transforms;
mod video;
mod wait;

use pyo3::prelude::*;

/// Called before a fork, by the thread that forks.
#[pyfunction]
fn before_fork() {
    feedline::source::before_fork();
}

/// Called after a fork, by the same thread, in the parent and in the child.
#[pyfunction]
fn after_fork() {
    feedline::source::after_fork();
}

/// The compiled module.
#[pymodule(gil_used = false)]
fn _feedline(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<dataset::PyDataset>()?;
    module.add_class::<loader::PyLoader>()?;
    module.add_class::<loader::PyEpoch>()?;
    module.add_class::<handoff::Buffer>()?;
    module.add_class::<handoff::MappedFiles>()?;
    module.add_class::<ops::PyImageOps>()?;
    module.add_class::<pack::PyPackWriter>()?;
    module.add_class::<rows::PyRows>()?;
    module.add_class::<video::PyVideo>()?;
    module.add_class::<pack::PackProgress>()?;
    module.add_function(wrap_pyfunction!(before_fork, module)?)?;
    module.add_function(wrap_pyfunction!(after_fork, module)?)?;
    module.add_function(wrap_pyfunction!(loader::usable_cores, module)?)?;
    module.add_function(wrap_pyfunction!(loader::merge_stats, module)?)?;
    module.add_function(wrap_pyfunction!(pack::pack, module)?)?;
    module.add_function(wrap_pyfunction!(pack::convert, module)?)?;
    module.add_function(wrap_pyfunction!(pack::plan_pack, module)?)?;
    module.add_function(wrap_pyfunction!(pack::write_part, module)?)?;
    module.add_function(wrap_pyfunction!(pack::missing_parts, module)?)?;
    module.add_function(wrap_pyfunction!(pack::commit_pack, module)?)?;
    module.add_function(wrap_pyfunction!(pack::append_pack, module)?)?;
    module.add_function(wrap_pyfunction!(pack::merge_packs, module)?)?;
    module.add_function(wrap_pyfunction!(pack::convert_task, module)?)?;
    module.add_function(wrap_pyfunction!(pack::convert_targets, module)?)?;
    module.add_function(wrap_pyfunction!(rows::kind_of, module)?)?;
    module.add_function(wrap_pyfunction!(pack::run_cli, module)?)?;
    module.add_function(wrap_pyfunction!(transforms::apply, module)?)?;
    module.add_function(wrap_pyfunction!(transforms::replay, module)?)?;
    module.add_function(wrap_pyfunction!(transforms::encode_jpeg, module)?)?;
    module.add_function(wrap_pyfunction!(transforms::draw_params, module)?)?;
    module.add_function(wrap_pyfunction!(transforms::drawn_shape, module)?)?;
    module.add_function(wrap_pyfunction!(transforms::draw_mixed, module)?)?;
    module.add_function(wrap_pyfunction!(transforms::elastic_field, module)?)?;
    module.add_function(wrap_pyfunction!(transforms::move_mask, module)?)?;
    module.add_function(wrap_pyfunction!(transforms::move_boxes, module)?)?;
    module.add_function(wrap_pyfunction!(transforms::move_keypoints, module)?)?;
    module.add_function(wrap_pyfunction!(transforms::transform_names, module)?)?;
    Ok(())
}
