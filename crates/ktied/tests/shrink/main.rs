//! Looking inside a posterior and making it smaller: singular values, compression, pruning, and the paper's claim.

mod claim;
mod network;
mod svd;
