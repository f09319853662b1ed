//! The paper's models as descriptions: sizes in, layers and numbers of parameters out.

mod layer;
mod lenet;
mod lstm;
mod mlp;
mod network;
mod preset;
mod resnet18;
mod spec;

pub use layer::{LayerSpec, Role, Totals};
pub use lenet::{LeNet, LeNetSpec};
pub use lstm::LstmSpec;
pub use mlp::{Mlp, MlpSpec};
pub use network::{Network, NetworkConfig};
pub use preset::Preset;
pub use resnet18::ResNet18Spec;
pub use spec::{ModelSpec, PosteriorSpec};
