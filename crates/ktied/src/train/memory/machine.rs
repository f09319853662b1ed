//! How much memory the machine has left for a process, where it says so.
//!
//! Linux says how much can be had without swapping (`MemAvailable`), and control groups, which containers are made of, how much
//! of it a process may take: the smallest of all limits on the way up counts. Elsewhere nobody knows.

use std::path::Path;

/// Bytes that this process can still take; nothing where the system does not say.
pub fn available() -> Option<u64> {
    available_in(Path::new("/"))
}

/// The same for a system whose files lie in a folder.
fn available_in(root: &Path) -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).ok();
    let machine =
        read("proc/meminfo").and_then(|text| field(&text, "MemAvailable:")).map(|kib| kib.saturating_mul(1024));
    let groups = read("proc/self/cgroup").unwrap_or_default();
    let left = groups.lines().filter_map(|line| left_in_group(root, line)).min();
    machine.into_iter().chain(left).min()
}

/// The number after a name, in lines of `name number …`.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Where a version of control groups has its files, and what it calls them.
struct Files {
    mount: &'static str,
    limit: &'static str,
    usage: &'static str,
    /// The part of the usage that the system gives back when it is asked to.
    cache: &'static str,
}

const VERSION_2: Files =
    Files { mount: "sys/fs/cgroup", limit: "memory.max", usage: "memory.current", cache: "inactive_file " };
const VERSION_1: Files = Files {
    mount: "sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    cache: "total_inactive_file ",
};

/// What a line of `/proc/self/cgroup`, `number:controllers:path`, leaves: the least of the group and those it is in.
fn left_in_group(root: &Path, line: &str) -> Option<u64> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let files = match controllers {
        "" => VERSION_2,
        _ if controllers.split(',').any(|controller| controller == "memory") => VERSION_1,
        _ => return None,
    };
    let mount = root.join(files.mount);
    // In a container the path may be that of the host, and only the mount's own files there.
    let group = Path::new(path.trim_start_matches('/'));
    group.ancestors().filter_map(|group| left(&mount.join(group), &files)).min()
}

/// The limit of one group minus what it uses; nothing if it has no limit.
fn left(group: &Path, files: &Files) -> Option<u64> {
    let read = |name: &str| std::fs::read_to_string(group.join(name)).ok();
    let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
    let (limit, usage) = (number(files.limit)?, number(files.usage)?);
    let cache = read("memory.stat").and_then(|text| field(&text, files.cache)).unwrap_or(0);
    Some(limit.saturating_sub(usage.saturating_sub(cache)))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A folder that stands for a machine, removed at the end.
    struct Machine(PathBuf);

    impl Machine {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let folder = std::env::temp_dir().join(format!("ktied-machine-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&folder);
            for (path, text) in files {
                let path = folder.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            Self(folder)
        }

        fn available(&self) -> Option<u64> {
            available_in(&self.0)
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal:  8000 kB\nMemFree: 1 kB\nMemAvailable:    4000 kB\n");

    #[test]
    fn without_groups_it_is_what_the_machine_says() {
        assert_eq!(Machine::new("plain", &[MEMINFO]).available(), Some(4_096_000));
        assert_eq!(Machine::new("none", &[]).available(), None);
        let unlimited = Machine::new(
            "unlimited",
            &[
                MEMINFO,
                ("proc/self/cgroup", "0::/user\n"),
                ("sys/fs/cgroup/user/memory.max", "max\n"),
                ("sys/fs/cgroup/user/memory.current", "100\n"),
            ],
        );
        assert_eq!(unlimited.available(), Some(4_096_000));
    }

    #[test]
    fn the_smallest_limit_on_the_way_up_counts_less_what_is_used_and_not_given_back() {
        let limited = Machine::new(
            "limited",
            &[
                MEMINFO,
                ("proc/self/cgroup", "0::/outer/inner\n"),
                ("sys/fs/cgroup/outer/memory.max", "1000000\n"),
                ("sys/fs/cgroup/outer/memory.current", "900000\n"),
                ("sys/fs/cgroup/outer/memory.stat", "anon 5\ninactive_file 300000\nactive_file 7\n"),
                ("sys/fs/cgroup/outer/inner/memory.max", "5000000\n"),
                ("sys/fs/cgroup/outer/inner/memory.current", "900000\n"),
            ],
        );
        assert_eq!(limited.available(), Some(400_000));
    }

    #[test]
    fn the_first_version_of_groups_is_read_too_and_a_containers_own_mount() {
        let limited = Machine::new(
            "first",
            &[
                MEMINFO,
                ("proc/self/cgroup", "3:cpu,cpuacct:/x\n2:memory:/docker/abc\n1:name=systemd:/\n0::/\n"),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000\n"),
                ("sys/fs/cgroup/memory/memory.usage_in_bytes", "500000\n"),
            ],
        );
        assert_eq!(limited.available(), Some(1_500_000));
        let over = Machine::new(
            "over",
            &[
                MEMINFO,
                ("proc/self/cgroup", "2:memory:/\n"),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "2000\n"),
                ("sys/fs/cgroup/memory/memory.usage_in_bytes", "5000\n"),
            ],
        );
        assert_eq!(over.available(), Some(0));
    }

    #[test]
    fn files_that_say_nonsense_are_as_good_as_none() {
        let nonsense = Machine::new(
            "nonsense",
            &[
                ("proc/meminfo", "MemAvailable: lots kB\n"),
                ("proc/self/cgroup", "\n::\n0:\n0::/../../..\n2:memory:/a:b:c\n"),
                ("sys/fs/cgroup/memory.max", "-1\n"),
                ("sys/fs/cgroup/memory.current", "99999999999999999999\n"),
            ],
        );
        assert_eq!(nonsense.available(), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_has_some_memory_left() {
        assert!(available().is_some_and(|bytes| bytes > 1 << 20), "{:?}", available());
    }
}
