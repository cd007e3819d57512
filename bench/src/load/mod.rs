//! Closed-loop load: every connection sends its next request when it has the whole answer to the last one.

mod connection;
mod report;

pub use report::Report;

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use connection::Connection;

/// What to send, where to, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// `ip:port`.
    pub address: &'a str,
    /// Path of every request.
    pub path: &'a str,
    /// Bodies, used in turn.
    pub bodies: &'a [Vec<u8>],
    /// Places in each body to write a number that no other request of this process has; `None`: bodies are sent as they are.
    pub unique_at: Option<&'a [Vec<usize>]>,
    /// Connections, one blocking thread each.
    pub connections: usize,
    /// No request begins later than this.
    pub duration: Duration,
}

/// Length of the text written at [`Load::unique_at`].
pub const UNIQUE_BYTES: usize = 8;

/// Never starts again, so that text is unique across measurements too.
static SERIAL: AtomicU64 = AtomicU64::new(0);

impl Load<'_> {
    /// Runs the load.
    ///
    /// # Errors
    /// When a connection cannot be made. Failed requests are counted, not errors.
    pub fn run(&self) -> io::Result<Report> {
        let start = Instant::now();
        let collected = Mutex::new(Report::default());
        thread::scope(|scope| {
            let threads: Vec<_> = (0..self.connections).map(|_| scope.spawn(|| self.connection(start))).collect();
            for thread in threads {
                collected.lock().expect("not poisoned").merge(thread.join().expect("no panic")?);
            }
            Ok::<(), io::Error>(())
        })?;
        let mut report = collected.into_inner().expect("not poisoned");
        report.finish(start.elapsed());
        Ok(report)
    }

    fn connection(&self, start: Instant) -> io::Result<Report> {
        let mut connection = Connection::open(self.address)?;
        let mut report = Report::default();
        let mut unique = Vec::new();
        while start.elapsed() < self.duration {
            let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
            let body = self.body(serial, &mut unique);
            let sent = Instant::now();
            match connection.exchange(self.address, self.path, body) {
                Ok(200) => report.success(sent.elapsed()),
                Ok(status) => report.failure(format!("status {status}")),
                Err(error) => {
                    report.failure(error.to_string());
                    connection = Connection::open(self.address)?;
                }
            }
        }
        Ok(report)
    }

    fn body<'b>(&'b self, serial: u64, unique: &'b mut Vec<u8>) -> &'b [u8] {
        let which = serial as usize % self.bodies.len();
        let body = &self.bodies[which];
        let Some(places) = self.unique_at else { return body };
        unique.clear();
        unique.extend_from_slice(body);
        let number = format!("{serial:08x}");
        for at in places[which].iter().copied() {
            unique[at..at + UNIQUE_BYTES].copy_from_slice(number.as_bytes());
        }
        unique
    }
}
