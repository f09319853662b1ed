//! Data sets, and the orders in which their examples are visited.

pub mod digits;
pub mod shuffle;
