//! A small HTTP server for tests: a few files, on demand with a connection that breaks.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// How the server behaves.
#[derive(Clone, Copy, Default)]
pub struct Manners {
    /// Breaks the first so many answers off.
    pub num_cuts: usize,
    /// After so many bytes of the body.
    pub cut_after: usize,
    /// Answers a request for a part with the whole.
    pub ignores_ranges: bool,
    /// Claims this length whatever the body is.
    pub claims: Option<usize>,
}

/// A running server; its thread ends with the tests.
pub struct Server {
    /// Its address.
    pub url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Serves these files.
    pub fn new(files: &[(&str, Vec<u8>)], manners: Manners) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let files: HashMap<String, Vec<u8>> =
            files.iter().map(|(name, bytes)| (format!("/{name}"), bytes.clone())).collect();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&requests);
        std::thread::spawn(move || {
            let mut cuts_left = manners.num_cuts;
            for stream in listener.incoming().flatten() {
                // A client that goes away is not the server's concern.
                let _ = answer(stream, &files, manners, &mut cuts_left, &log);
            }
        });
        Self { url, requests }
    }

    /// What was asked for: the path, and the range after a space if there was one.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("no panic").clone()
    }
}

fn answer(
    mut stream: TcpStream,
    files: &HashMap<String, Vec<u8>>,
    manners: Manners,
    cuts_left: &mut usize,
    log: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let (path, range) = request(&stream)?;
    log.lock().expect("no panic").push(range.as_ref().map_or(path.clone(), |range| format!("{path} {range}")));
    let Some(bytes) = files.get(&path) else {
        return write!(stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    };
    let start = range.filter(|_| !manners.ignores_ranges);
    let start = start.map(|range| range.trim_end_matches('-').parse::<usize>().expect("an open range"));
    let body = bytes.get(start.unwrap_or(0)..).unwrap_or_default();
    match start {
        Some(start) if start >= bytes.len() => {
            return write!(
                stream,
                "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
        }
        Some(start) => write!(
            stream,
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {start}-{}/{}\r\n",
            bytes.len() - 1,
            bytes.len()
        )?,
        None => write!(stream, "HTTP/1.1 200 OK\r\n")?,
    }
    let len = manners.claims.unwrap_or(body.len());
    write!(stream, "Content-Length: {len}\r\nConnection: close\r\n\r\n")?;
    let cut = *cuts_left > 0;
    *cuts_left = cuts_left.saturating_sub(1);
    stream.write_all(if cut { &body[..manners.cut_after.min(body.len())] } else { body })?;
    stream.flush()
}

fn request(stream: &TcpStream) -> std::io::Result<(String, Option<String>)> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    let path = first.split(' ').nth(1).unwrap_or_default().to_string();
    let mut range = None;
    for line in lines {
        let line = line?.to_ascii_lowercase();
        if let Some(bytes) = line.strip_prefix("range: bytes=") {
            range = Some(bytes.to_string());
        }
        if line.is_empty() {
            break;
        }
    }
    Ok((path, range))
}
