//! Downloads of small made-up sets: whole, broken off and taken up again, wrong.

use std::path::PathBuf;

use indicatif::ProgressBar;
use ktied::data::digest::sha256;
use ktied::data::standard::{Contents, Kind, Standard};
use ktied_cli::fetch::{FetchError, Host, get};

use crate::server::{Manners, Server};
use crate::{Folder, gzip, names};

fn contents(file: &'static str, bytes: &[u8]) -> Contents {
    Contents { file, len: bytes.len() as u64, sha256: sha256(bytes).leak() }
}

/// A set of two packed files.
fn pair() -> Standard {
    let files = [contents("images", &images()), contents("labels", b"labels")];
    Standard { name: "pair", examples: [1, 0, 0], about: "", kind: Kind::Idx(files.to_vec().leak()) }
}

/// Bytes that do not shrink, so that a break comes in their midst.
fn images() -> Vec<u8> {
    let xorshift = |state: &u32| {
        let state = state ^ (state << 13);
        let state = state ^ (state >> 17);
        Some(state ^ (state << 5))
    };
    std::iter::successors(Some(1u32), xorshift).map(|state| state as u8).take(40_000).collect()
}

fn packed_pair() -> Vec<(&'static str, Vec<u8>)> {
    vec![("images.gz", gzip(&images())), ("labels.gz", gzip(b"labels"))]
}

/// A set of one file in an archive.
fn archived() -> Standard {
    let files = [contents("train.bin", b"the records")];
    Standard { name: "archived", examples: [1, 0, 0], about: "", kind: Kind::Cifar(files.to_vec().leak()) }
}

fn tar(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, bytes) in entries {
        let mut header = tar::Header::new_gnu();
        // Written by hand, because the builder refuses the paths that an attacker would choose.
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_entry_type(tar::EntryType::Regular);
        header.set_cksum();
        builder.append(&header, *bytes).expect("memory");
    }
    builder.into_inner().expect("memory")
}

fn fetch(set: &Standard, server: &Server, archive: Option<&'static str>, dir: &Folder) -> Result<PathBuf, FetchError> {
    let agent =
        ureq::Agent::new_with_config(ureq::Agent::config_builder().proxy(None).http_status_as_error(false).build());
    let host = Host { base: server.url.clone(), archive };
    get(set, &host, &dir.0, &agent, &ProgressBar::hidden())
}

fn assert_pair_is_whole(folder: &std::path::Path) {
    assert_eq!(names(folder), ["images.gz", "labels.gz"]);
    let Kind::Idx(files) = pair().kind else { panic!("two files") };
    for contents in files {
        let checked = contents.check(&folder.join(format!("{}.gz", contents.file))).expect("a file");
        assert!(checked.is_right(), "{checked:?}");
    }
}

#[test]
fn a_download_gets_its_name_when_it_is_whole() {
    let (dir, server) = (Folder::new(), Server::new(&packed_pair(), Manners::default()));
    let folder = fetch(&pair(), &server, None, &dir).expect("a download");
    assert_pair_is_whole(&folder);
    assert_eq!(dir.names(), ["pair"], "nothing else is left");
    assert_eq!(server.requests(), ["/images.gz", "/labels.gz"]);
    let again = fetch(&pair(), &server, None, &dir).expect_err("the place is taken");
    assert!(matches!(again, FetchError::Present { .. }), "{again}");
}

#[test]
fn a_connection_that_breaks_is_taken_up_where_it_broke() {
    let manners = Manners { num_cuts: 2, cut_after: 10_000, ..Manners::default() };
    let (dir, server) = (Folder::new(), Server::new(&packed_pair(), manners));
    assert_pair_is_whole(&fetch(&pair(), &server, None, &dir).expect("a download"));
    assert_eq!(server.requests(), ["/images.gz", "/images.gz 10000-", "/images.gz 20000-", "/labels.gz"]);
}

#[test]
fn what_arrived_is_kept_for_the_next_try() {
    let dir = Folder::new();
    let broken = Server::new(&packed_pair(), Manners { num_cuts: usize::MAX, ..Manners::default() });
    let error = fetch(&pair(), &broken, None, &dir).expect_err("no byte arrives");
    assert!(matches!(error, FetchError::Network { .. }) && !error.is_of_data(), "{error}");
    let cut = Manners { num_cuts: 1, cut_after: 500, ..Manners::default() };
    let first = Server::new(&packed_pair()[..1], cut);
    fetch(&pair(), &first, None, &dir).expect_err("the labels are not there");
    assert_eq!(dir.names(), [".pair.part"], "the set has no name yet");
    let second = Server::new(&packed_pair(), Manners::default());
    assert_pair_is_whole(&fetch(&pair(), &second, None, &dir).expect("a download"));
    assert_eq!(second.requests(), ["/labels.gz"], "the images were whole");
    assert_eq!(dir.names(), ["pair"]);
}

#[test]
fn a_server_that_knows_no_ranges_is_asked_for_the_whole() {
    let manners = Manners { num_cuts: 1, cut_after: 10_000, ignores_ranges: true, ..Manners::default() };
    let (dir, server) = (Folder::new(), Server::new(&packed_pair(), manners));
    assert_pair_is_whole(&fetch(&pair(), &server, None, &dir).expect("a download"));
}

/// The part that is there is longer than the file: it cannot be its beginning.
#[test]
fn a_part_that_does_not_fit_is_thrown_away() {
    let (dir, server) = (Folder::new(), Server::new(&packed_pair(), Manners::default()));
    std::fs::create_dir(dir.0.join(".pair.part")).expect("a folder");
    std::fs::write(dir.0.join(".pair.part/labels.gz.part"), [0; 1000]).expect("a file");
    assert_pair_is_whole(&fetch(&pair(), &server, None, &dir).expect("a download"));
    assert_eq!(server.requests()[1..], ["/labels.gz 1000-", "/labels.gz"]);
}

#[test]
fn other_contents_are_refused_and_nothing_is_left_behind() {
    let mut files = packed_pair();
    files[1].1 = gzip(b"lebals");
    for (wrong, part) in [
        (files, "expected the SHA-256"),
        (vec![("images.gz", b"no gzip".to_vec())], "found damage"),
        (vec![("images.gz", gzip(&[0; 1 << 20]))], "expected the end after 40000 bytes of contents, found more"),
    ] {
        let (dir, server) = (Folder::new(), Server::new(&wrong, Manners::default()));
        let error = fetch(&pair(), &server, None, &dir).expect_err("wrong contents");
        assert!(error.is_of_data() && error.to_string().contains(part), "{error}");
        assert!(dir.names().is_empty(), "{:?}", dir.names());
    }
}

#[test]
fn more_bytes_than_a_file_can_have_are_not_fetched() {
    let manners = Manners { claims: Some(1 << 40), ..Manners::default() };
    let (dir, server) = (Folder::new(), Server::new(&packed_pair(), manners));
    let error = fetch(&pair(), &server, None, &dir).expect_err("too large");
    assert!(matches!(error, FetchError::TooLarge { .. }), "{error}");
    assert!(dir.names().is_empty());
}

/// All bytes arrive, the server says that some are missing, and has none of those.
#[test]
fn a_server_that_claims_more_than_it_has_is_not_asked_for_ever() {
    let manners = Manners { claims: Some(50_000), ..Manners::default() };
    let (dir, server) = (Folder::new(), Server::new(&packed_pair(), manners));
    let error = fetch(&pair(), &server, None, &dir).expect_err("a length that is not true");
    assert!(matches!(error, FetchError::Network { .. }), "{error}");
    assert_eq!(dir.names(), [".pair.part"]);
    assert!(server.requests().len() <= 6, "{:?}", server.requests());
}

#[test]
fn an_archive_gives_its_known_files_and_no_others() {
    let bytes = gzip(&tar(&[
        ("set/readme.html", b"a page"),
        ("../escaped.bin", b"outside"),
        ("set/../../train.bin", b"outside"),
        ("set/train.bin", b"the records"),
    ]));
    let (dir, server) = (Folder::new(), Server::new(&[("a.tar.gz", bytes)], Manners::default()));
    let folder = fetch(&archived(), &server, Some("a.tar.gz"), &dir).expect("a download");
    assert_eq!((names(&folder), dir.names()), (vec!["train.bin".to_string()], vec!["archived".to_string()]));
    assert_eq!(std::fs::read(folder.join("train.bin")).expect("a file"), b"the records");
}

#[test]
fn archives_that_are_cut_swapped_or_incomplete_are_refused_and_removed() {
    let whole = gzip(&tar(&[("set/train.bin", b"the records")]));
    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0xff;
    for (bytes, part) in [
        (whole[..whole.len() / 2].to_vec(), "expected a whole tar.gz archive"),
        (damaged, "expected a whole tar.gz archive"),
        (b"no archive".to_vec(), "expected a whole tar.gz archive"),
        (gzip(&tar(&[("set/train.bin", b"the record")])), "expected set/train.bin of 11 to 11 bytes, found 10"),
        (gzip(&tar(&[("set/train.bin", b"the recards")])), "expected the SHA-256"),
        (gzip(&tar(&[("set/test.bin", b"the records")])), "cannot open"),
    ] {
        let (dir, server) = (Folder::new(), Server::new(&[("a.tar.gz", bytes)], Manners::default()));
        let error = fetch(&archived(), &server, Some("a.tar.gz"), &dir).expect_err("a wrong archive");
        assert!(error.is_of_data() && error.to_string().contains(part), "{part}: {error}");
        assert!(dir.names().is_empty(), "{part}: {:?}", dir.names());
    }
}

#[test]
fn two_at_once_do_not_write_to_the_same_place() {
    let (dir, server) = (Folder::new(), Server::new(&packed_pair(), Manners::default()));
    let lock = std::fs::File::create(dir.0.join(".pair.lock")).expect("a file");
    lock.lock().expect("a lock");
    let error = fetch(&pair(), &server, None, &dir).expect_err("somebody else is at it");
    assert!(matches!(error, FetchError::Busy { .. }), "{error}");
}
