//! Training as a whole: runs that stop and go on, policies, priors that are learned, and what a run's folder holds.

mod dropout;
mod noise;
mod numbers;
mod resume;
mod run;
mod support;
mod threads;
mod together;
