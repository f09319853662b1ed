//! The path of a parameter in its module, as in `layers.0.weights.kernel.loc`.

/// Where a visitor or mapper of a module is.
#[derive(Debug, Default)]
pub(crate) struct ModulePath(Vec<String>);

impl ModulePath {
    /// Goes down. Variants of enums are left out: a posterior is at the same place whatever its family.
    pub(crate) fn enter(&mut self, name: &str, container: &str) {
        if !is_variant(container) {
            self.0.push(name.into());
        }
    }

    /// Goes up again.
    pub(crate) fn exit(&mut self, container: &str) {
        if !is_variant(container) {
            self.0.pop();
        }
    }

    /// The whole path.
    pub(crate) fn joined(&self) -> String {
        self.0.join(".")
    }

    /// The parameter's own name.
    pub(crate) fn last(&self) -> &str {
        self.0.last().map_or("", String::as_str)
    }
}

/// burn calls the container of a variant `Enum:Type`.
fn is_variant(container: &str) -> bool {
    container.starts_with("Enum:")
}

/// Implements the two hooks of burn's visitors and mappers for a type with a field `path`.
macro_rules! tracks_path {
    () => {
        fn enter_module(&mut self, name: &str, container: &str) {
            self.path.enter(name, container);
        }

        fn exit_module(&mut self, _: &str, container: &str) {
            self.path.exit(container);
        }
    };
}
pub(crate) use tracks_path;
