//! ZMQ endpoints: `tcp://host:port` and `ipc:///path`.

use std::path::PathBuf;
use std::str::FromStr;

use thiserror::Error;

use crate::engine::is_wildcard;

/// Where a socket is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// Host name or address, and port. The host `*`, as 0.0.0.0 and `::`, is every interface, for binding only.
    Tcp {
        /// Without brackets.
        host: String,
        /// Not zero, except for binding.
        port: u16,
    },
    /// Path of a Unix socket.
    Ipc(PathBuf),
}

/// Why a text is no endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EndpointError {
    /// Neither transport.
    #[error("endpoint {0:?}: only tcp://host:port and ipc:///path are supported")]
    Transport(String),
    /// No port, or not a number.
    #[error("endpoint {0:?}: the port is missing or not a number from 0 to 65535")]
    Port(String),
    /// Nothing before the port.
    #[error("endpoint {0:?}: the host is missing")]
    Host(String),
    /// A wildcard where a peer must be named.
    #[error(
        "endpoint {0:?}: `*`, 0.0.0.0, `::` and port 0 can only be bound; name the worker's host and port to connect to it"
    )]
    Wildcard(String),
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        if let Some(path) = text.strip_prefix("ipc://").filter(|path| !path.is_empty() && !path.starts_with('@')) {
            return Ok(Self::Ipc(path.into()));
        }
        let Some(address) = text.strip_prefix("tcp://") else {
            return Err(EndpointError::Transport(text.to_owned()));
        };
        let (host, port) = address.rsplit_once(':').ok_or_else(|| EndpointError::Port(text.to_owned()))?;
        let port = port.parse().map_err(|_| EndpointError::Port(text.to_owned()))?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() {
            return Err(EndpointError::Host(text.to_owned()));
        }
        Ok(Self::Tcp { host: host.to_owned(), port })
    }
}

impl Endpoint {
    /// An endpoint that can be connected to.
    pub(super) fn to_connect(text: &str) -> Result<Self, EndpointError> {
        match text.parse()? {
            Self::Tcp { host, port } if is_wildcard(&host) || port == 0 => {
                Err(EndpointError::Wildcard(text.to_owned()))
            }
            endpoint => Ok(endpoint),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_of_either_transport() {
        let tcp = |host: &str, port| Ok(Endpoint::Tcp { host: host.into(), port });
        assert_eq!(Endpoint::to_connect("tcp://10.0.0.1:5557"), tcp("10.0.0.1", 5557));
        assert_eq!(Endpoint::to_connect("tcp://worker-0.svc:5557"), tcp("worker-0.svc", 5557));
        assert_eq!(Endpoint::to_connect("tcp://[::1]:5557"), tcp("::1", 5557));
        assert_eq!("tcp://*:0".parse(), tcp("*", 0));
        assert_eq!(Endpoint::to_connect("ipc:///run/kv.sock"), Ok(Endpoint::Ipc("/run/kv.sock".into())));
    }

    #[test]
    fn what_cannot_be_reached_is_refused_with_the_reason() {
        let refused = |text: &str| Endpoint::to_connect(text).unwrap_err();
        for any in ["tcp://*:5557", "tcp://0.0.0.0:5557", "tcp://[::]:5557", "tcp://worker:0"] {
            assert!(matches!(refused(any), EndpointError::Wildcard(_)), "{any}");
        }
        assert!(matches!(refused("tcp://host"), EndpointError::Port(_)));
        assert!(matches!(refused("tcp://host:99999"), EndpointError::Port(_)));
        assert!(matches!(refused("tcp://:1"), EndpointError::Host(_)));
        assert!(matches!(refused("inproc://x"), EndpointError::Transport(_)));
        assert!(matches!(refused("ipc://@abstract"), EndpointError::Transport(_)));
    }
}
