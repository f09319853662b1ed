//! The commands, one file each.

pub(crate) mod analyze;
pub(crate) mod bench_kernels;
pub(crate) mod bench_predict;
pub(crate) mod bench_step;
pub(crate) mod completions;
pub(crate) mod compress;
pub(crate) mod data;
pub(crate) mod demo;
pub(crate) mod evaluate;
pub(crate) mod export;
pub(crate) mod inspect;
mod layers;
mod memory;
pub(crate) mod params;
pub(crate) mod predict;
pub(crate) mod prune;
pub(crate) mod report;
pub(crate) mod sweep;
pub(crate) mod train;
