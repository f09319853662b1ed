//! Training as a whole: runs that stop and go on, policies, priors that are learned, and what a run's folder holds.

mod dropout;
mod resume;
mod run;
mod support;
