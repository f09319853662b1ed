//! Checkpoints: round trips bit for bit, every kind of damage, every point at which a process can die.

mod crash;
mod damage;
mod modules;
mod optimizer;
mod resume;
mod store;
mod support;
