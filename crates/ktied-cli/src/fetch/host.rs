//! Where data sets come from.

/// The server of a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The address of its folder.
    pub base: String,
    /// The archive with all files; if there is none, each file is offered alone, as .gz.
    pub archive: Option<&'static str>,
}

impl Host {
    /// The set's own host, or the one that `from` names instead; nothing for sets that no host offers.
    ///
    /// MNIST's author no longer serves the files; the copy is the one that TensorFlow's data sets use.
    pub fn of(set: &str, from: Option<&str>) -> Option<Self> {
        let (base, archive) = match set {
            "mnist" => ("https://storage.googleapis.com/cvdf-datasets/mnist", None),
            "fashion-mnist" => ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com", None),
            "cifar10" => ("https://www.cs.toronto.edu/~kriz", Some("cifar-10-binary.tar.gz")),
            "cifar100" => ("https://www.cs.toronto.edu/~kriz", Some("cifar-100-binary.tar.gz")),
            "imdb" => ("https://ai.stanford.edu/~amaas/data/sentiment", Some("aclImdb_v1.tar.gz")),
            _ => return None,
        };
        Some(Self { base: from.unwrap_or(base).into(), archive })
    }

    /// The address of one of its files.
    pub fn url(&self, file: &str) -> String {
        format!("{}/{file}", self.base.trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_host_replaces_the_folder_and_keeps_the_names() {
        let url = |from| Host::of("cifar10", from).map(|host| host.url("cifar-10-binary.tar.gz"));
        assert_eq!(url(None).as_deref(), Some("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"));
        assert_eq!(url(Some("http://a:1/b/")).as_deref(), Some("http://a:1/b/cifar-10-binary.tar.gz"));
        assert_eq!(Host::of("uci/yacht", None), None);
    }
}
