//! Training as a whole: runs that stop and go on, policies, priors that are learned, and what a run's folder holds.

mod resume;
mod run;
mod support;
