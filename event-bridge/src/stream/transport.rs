//! TCP and Unix sockets behind one type.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

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

/// Where peers come in.
pub(super) trait Accept {
    /// The next peer, and its address. Nothing is lost when the future is dropped.
    fn accept(&self) -> impl Future<Output = io::Result<Peer>> + Send;
}

/// A peer that connected, and its address.
pub(super) type Peer = (Box<dyn Transport>, Option<SocketAddr>);

/// A bound endpoint.
pub(super) enum Listener {
    /// The second takes IPv4, where the system does not let the first, of IPv6, do so.
    Tcp(TcpListener, Option<TcpListener>),
    Ipc(UnixListener),
}

impl Listener {
    /// Binds. A socket file left behind by a former process is replaced.
    pub(super) async fn bind(endpoint: &Endpoint) -> io::Result<Self> {
        match endpoint {
            Endpoint::Tcp { host, port } if host == "*" => every_interface(*port).await,
            Endpoint::Tcp { host, port } => Ok(Self::Tcp(TcpListener::bind((host.as_str(), *port)).await?, None)),
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
}

/// Binds a port for IPv6 and IPv4: on one socket where the system lets it take both.
async fn every_interface(port: u16) -> io::Result<Listener> {
    let Ok(six) = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await else {
        // No IPv6 here; or the port is taken, which this says as well.
        return Ok(Listener::Tcp(TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await?, None));
    };
    // Taken, if the first takes IPv4 as well.
    let four = TcpListener::bind((Ipv4Addr::UNSPECIFIED, six.local_addr()?.port())).await.ok();
    Ok(Listener::Tcp(six, four))
}

impl Accept for Listener {
    async fn accept(&self) -> io::Result<Peer> {
        let (stream, peer) = match self {
            Self::Tcp(listener, None) => listener.accept().await?,
            Self::Tcp(six, Some(four)) => tokio::select! {
                accepted = six.accept() => accepted?,
                accepted = four.accept() => accepted?,
            },
            Self::Ipc(listener) => return Ok((Box::new(listener.accept().await?.0), None)),
        };
        stream.set_nodelay(true)?;
        // IPv4 addresses of a socket that takes both come in IPv6's clothes.
        Ok((Box::new(stream), Some(SocketAddr::new(peer.ip().to_canonical(), peer.port()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_interface_is_that_of_ipv6_too() {
        let listener = Listener::bind(&Endpoint::Tcp { host: "*".into(), port: 0 }).await.unwrap();
        let Listener::Tcp(bound, _) = &listener else { panic!("not TCP") };
        let port = bound.local_addr().unwrap().port();
        let mut hosts = vec!["127.0.0.1"];
        if TcpListener::bind("[::1]:0").await.is_ok() {
            hosts.push("::1");
        }
        for host in hosts {
            let (peer, accepted) = tokio::join!(TcpStream::connect((host, port)), listener.accept());
            let (_, from) = accepted.unwrap();
            assert_eq!((from.unwrap().ip().to_string(), from), (host.to_owned(), peer.unwrap().local_addr().ok()));
        }
    }
}
