//! The commands, one file each.

pub(crate) mod analyze;
pub(crate) mod bench_io;
pub(crate) mod bench_kernels;
pub(crate) mod bench_predict;
pub(crate) mod bench_ranks;
pub(crate) mod bench_scale;
pub(crate) mod bench_step;
pub(crate) mod bench_sum;
pub(crate) mod completions;
pub(crate) mod compress;
pub(crate) mod data;
pub(crate) mod demo;
pub(crate) mod evaluate;
pub(crate) mod export;
pub(crate) mod inspect;
mod layers;
mod made_up;
mod memory;
pub(crate) mod params;
pub(crate) mod predict;
pub(crate) mod prune;
mod rehearsal;
pub(crate) mod report;
pub(crate) mod reproduce;
pub(crate) mod sweep;
pub(crate) mod train;
