//! The commands, one file each.

pub(crate) mod bench_kernels;
pub(crate) mod data;
pub(crate) mod demo;
pub(crate) mod params;
