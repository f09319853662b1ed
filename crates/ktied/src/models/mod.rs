//! The paper's models: descriptions of sizes that count their parameters, and the networks made of them.

mod any;
mod layer;
mod lenet;
mod lstm;
mod mlp;
mod network;
mod resnet18;
mod spec;

pub use any::{AnyNetwork, Features, Images};
pub use layer::{LayerSpec, Role, Totals};
pub use lenet::{LeNet, LeNetSpec};
pub use lstm::{LstmClassifier, LstmSpec};
pub use mlp::{Mlp, MlpSpec};
pub use network::{Network, NetworkConfig, Passes};
pub use resnet18::{Norm, ResNet18, ResNet18Spec};
pub use spec::{ModelSpec, PosteriorSpec};
