//! TCP and Unix sockets behind one type.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use super::endpoint::Endpoint;

/// Bytes both ways.
pub(super) trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// Connects.
pub(super) async fn connect(endpoint: &Endpoint) -> io::Result<Box<dyn Transport>> {
    match endpoint {
        Endpoint::Tcp { host, port } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream))
        }
        Endpoint::Ipc(path) => Ok(Box::new(UnixStream::connect(path).await?)),
    }
}

/// A bound endpoint.
pub(super) enum Listener {
    Tcp(TcpListener),
    Ipc(UnixListener),
}

impl Listener {
    /// Binds. A socket file left behind by a former process is replaced.
    pub(super) async fn bind(endpoint: &Endpoint) -> io::Result<Self> {
        match endpoint {
            Endpoint::Tcp { host, port } => {
                let host = if host == "*" { "0.0.0.0" } else { host };
                Ok(Self::Tcp(TcpListener::bind((host, *port)).await?))
            }
            Endpoint::Ipc(path) => {
                if UnixStream::connect(path).await.is_err() {
                    match std::fs::remove_file(path) {
                        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                        _ => {}
                    }
                }
                Ok(Self::Ipc(UnixListener::bind(path)?))
            }
        }
    }

    /// The next peer, and its address.
    pub(super) async fn accept(&self) -> io::Result<(Box<dyn Transport>, Option<SocketAddr>)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok((Box::new(stream), Some(peer)))
            }
            Self::Ipc(listener) => Ok((Box::new(listener.accept().await?.0), None)),
        }
    }
}
