//! Every kernel against a plain reference in double precision, in one test binary.

mod adam;
mod kl;
mod local;
mod noise;
mod reference;
mod sample;
mod vmath;
