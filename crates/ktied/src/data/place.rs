//! Where data are looked for: a given folder, `$KTIED_DATA`, the user's cache; one sub-folder a data set.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Names a folder with data sets.
pub const VARIABLE: &str = "KTIED_DATA";

/// The folders in which data sets are looked for, in order; downloads go into the first.
pub fn folders(dir: Option<&Path>) -> Vec<PathBuf> {
    folders_from(dir, std::env::var_os(VARIABLE), cache())
}

fn folders_from(dir: Option<&Path>, variable: Option<OsString>, cache: Option<PathBuf>) -> Vec<PathBuf> {
    let variable = variable.filter(|value| !value.is_empty()).map(PathBuf::from);
    [dir.map(Path::to_path_buf), variable, cache].into_iter().flatten().collect()
}

/// `ktied/data` in the user's cache folder; nothing if the user has no home.
pub fn cache() -> Option<PathBuf> {
    cache_from(std::env::var_os("XDG_CACHE_HOME"), std::env::home_dir(), cfg!(target_os = "macos"))
}

fn cache_from(xdg: Option<OsString>, home: Option<PathBuf>, is_macos: bool) -> Option<PathBuf> {
    // The standard says that a relative path there does not count.
    let xdg = xdg.map(PathBuf::from).filter(|path| path.is_absolute());
    let default = if is_macos { "Library/Caches" } else { ".cache" };
    let home = home.filter(|home| home.is_absolute()).map(|home| home.join(default));
    xdg.or(home).map(|cache| cache.join("ktied").join("data"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_folder_comes_first_then_the_variable_then_the_cache() {
        let cache = || Some(PathBuf::from("/c"));
        let of = |dir: Option<&str>, variable: Option<&str>, cache| {
            folders_from(dir.map(Path::new), variable.map(OsString::from), cache)
        };
        assert_eq!(of(Some("/a"), Some("/b"), cache()), ["/a", "/b", "/c"].map(PathBuf::from));
        assert_eq!(of(None, Some(""), cache()), [PathBuf::from("/c")]);
        assert!(of(None, None, None).is_empty());
    }

    #[test]
    fn the_cache_is_where_the_system_keeps_caches() {
        let of = |xdg: Option<&str>, home: Option<&str>, is_macos| {
            cache_from(xdg.map(OsString::from), home.map(PathBuf::from), is_macos)
        };
        assert_eq!(of(Some("/x"), Some("/h"), false), Some("/x/ktied/data".into()));
        assert_eq!(of(Some("x"), Some("/h"), false), Some("/h/.cache/ktied/data".into()));
        assert_eq!(of(None, Some("/h"), true), Some("/h/Library/Caches/ktied/data".into()));
        assert_eq!(of(None, None, false), None);
    }
}
