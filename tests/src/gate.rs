//! A TCP proxy whose door can be shut: connections are then neither accepted nor refused, as by a host that does not answer.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

/// A connection to a door that is open takes much less.
const SHUT_AFTER: Duration = Duration::from_millis(200);

/// The proxy. Dropping it ends it.
#[derive(Debug)]
pub struct Gate {
    /// Where it listens.
    pub address: SocketAddr,
    open: watch::Sender<bool>,
    /// Connections that nobody accepts: while they fill the queue, the kernel answers no further one.
    filling: Vec<TcpStream>,
    task: JoinHandle<()>,
}

impl Gate {
    /// An open door to `to`.
    pub fn to(to: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().expect("socket");
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("bind");
        let listener = socket.listen(1).expect("listen");
        let address = listener.local_addr().expect("address");
        let (open, mut state) = watch::channel(true);
        let task = tokio::spawn(async move {
            let mut inside = JoinSet::new();
            loop {
                if !*state.borrow_and_update() {
                    // Whoever was inside is out, or connections in use would need no door.
                    inside.shutdown().await;
                    if state.changed().await.is_err() {
                        return;
                    }
                    continue;
                }
                tokio::select! {
                    accepted = listener.accept() => {
                        let Ok((mut from, _)) = accepted else { return };
                        inside.spawn(async move {
                            if let Ok(mut to) = TcpStream::connect(to).await {
                                let _either_side_may_break = tokio::io::copy_bidirectional(&mut from, &mut to).await;
                            }
                        });
                    }
                    changed = state.changed() => if changed.is_err() { return },
                }
            }
        });
        Self { address, open, filling: Vec::new(), task }
    }

    /// Shuts it, and waits until nobody can connect any more.
    pub async fn shut(&mut self) {
        self.open.send_replace(false);
        while let Ok(connected) = timeout(SHUT_AFTER, TcpStream::connect(self.address)).await {
            self.filling.push(connected.expect("a listener"));
        }
    }

    /// Opens it again.
    pub fn open(&mut self) {
        self.filling.clear();
        self.open.send_replace(true);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.task.abort();
    }
}
