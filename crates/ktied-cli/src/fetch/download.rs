//! One file over HTTP, taken up where it broke off.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use indicatif::ProgressBar;
use ureq::http::{Response, StatusCode, header};

use super::error::FetchError;

/// Tries in a row that may bring nothing.
const MAX_IDLE_TRIES: u32 = 3;
/// How often a part that does not fit may be thrown away: a server that lies about its length would have it so for ever.
const MAX_RESTARTS: u32 = 1;
const PAUSE: Duration = Duration::from_millis(300);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// A client that asks as this program, waits a reasonable time, and takes the system's proxy.
pub fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder()
        .user_agent(concat!("ktied/", env!("CARGO_PKG_VERSION")))
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_per_read(Some(READ_TIMEOUT))
        .http_status_as_error(false);
    ureq::Agent::new_with_config(config.build())
}

/// Fetches `url` into `path`, at most `limit` bytes; until all have arrived, they are in a file that ends in `.part`.
///
/// # Errors
/// No connection, an answer other than the file, too many bytes, or a file that cannot be written. What has arrived stays and
/// the next call goes on from there.
pub fn download(agent: &ureq::Agent, url: &str, path: &Path, limit: u64, bar: &ProgressBar) -> Result<(), FetchError> {
    if path.is_file() {
        return Ok(());
    }
    let part = part_path(path);
    let (mut idle_tries, mut restarts) = (0, 0);
    loop {
        let before = len(&part)?;
        let problem = match attempt(agent, url, &part, limit, bar)? {
            Outcome::Done => break,
            Outcome::Broken(problem) => problem,
            Outcome::Restart(problem) => {
                restarts += 1;
                problem
            }
        };
        idle_tries = if len(&part)? > before { 0 } else { idle_tries + 1 };
        if idle_tries == MAX_IDLE_TRIES || restarts > MAX_RESTARTS {
            return Err(FetchError::Network { url: url.into(), message: problem });
        }
        sleep(PAUSE * idle_tries);
    }
    fs::rename(&part, path).map_err(|error| FetchError::io("rename", &part, error))
}

/// How one request ended, if not for good.
enum Outcome {
    Done,
    Broken(String),
    Restart(String),
}

fn attempt(agent: &ureq::Agent, url: &str, part: &Path, limit: u64, bar: &ProgressBar) -> Result<Outcome, FetchError> {
    let have = len(part)?;
    let request = match have {
        0 => agent.get(url),
        _ => agent.get(url).header(header::RANGE, format!("bytes={have}-")),
    };
    let response = match request.call() {
        Ok(response) => response,
        Err(error) => return Ok(Outcome::Broken(error.to_string())),
    };
    let start = match response.status() {
        StatusCode::OK => 0,
        StatusCode::PARTIAL_CONTENT if first_byte(&response) == Some(have) => have,
        // What is there does not fit what the server has: from the beginning.
        StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {
            fs::remove_file(part).map_err(|error| FetchError::io("remove", part, error))?;
            return Ok(Outcome::Restart("the server has another part of the file than was asked for".into()));
        }
        status => return Err(FetchError::Status { url: url.into(), status: status.as_u16() }),
    };
    let total = response.body().content_length().map(|rest| start.saturating_add(rest));
    let too_large = || FetchError::TooLarge { url: url.into(), limit };
    if total.is_some_and(|total| total > limit) {
        return Err(too_large());
    }
    bar.set_length(total.unwrap_or(limit));
    let mut file = open(part, start)?;
    let body = response.into_body().into_with_config().limit(u64::MAX).reader();
    let outcome = copy(body, &mut file, start, limit, bar).map_err(|error| FetchError::io("write", part, error))?;
    file.sync_all().map_err(|error| FetchError::io("write", part, error))?;
    match outcome {
        Copied::TooMuch => Err(too_large()),
        Copied::Broken(problem) => Ok(Outcome::Broken(problem)),
        Copied::Ended(found) => match total {
            Some(total) if found < total => Ok(Outcome::Broken(format!("{found} of {total} bytes arrived"))),
            _ => Ok(Outcome::Done),
        },
    }
}

/// How reading a body ended; writing errors are errors.
enum Copied {
    Ended(u64),
    Broken(String),
    TooMuch,
}

fn copy(mut body: impl Read, file: &mut File, start: u64, limit: u64, bar: &ProgressBar) -> io::Result<Copied> {
    let (mut buffer, mut at) = (vec![0; 1 << 16], start);
    loop {
        bar.set_position(at);
        let found = match body.read(&mut buffer) {
            Ok(0) => return Ok(Copied::Ended(at)),
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Ok(Copied::Broken(error.to_string())),
        };
        at += found as u64;
        if at > limit {
            return Ok(Copied::TooMuch);
        }
        file.write_all(&buffer[..found])?;
    }
}

/// The first byte of `Content-Range: bytes 100-199/200`.
fn first_byte(response: &Response<ureq::Body>) -> Option<u64> {
    let range = response.headers().get(header::CONTENT_RANGE)?.to_str().ok()?;
    range.strip_prefix("bytes ")?.split_once('-')?.0.parse().ok()
}

/// The file, to be written from `start` on.
fn open(part: &Path, start: u64) -> Result<File, FetchError> {
    let file = OpenOptions::new().create(true).append(true).open(part);
    let file = file.map_err(|error| FetchError::io("create", part, error))?;
    file.set_len(start).map_err(|error| FetchError::io("write", part, error))?;
    Ok(file)
}

fn len(part: &Path) -> Result<u64, FetchError> {
    match fs::metadata(part) {
        Ok(metadata) => Ok(metadata.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(FetchError::io("read", part, error)),
    }
}

fn part_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(".part");
    name.into()
}
