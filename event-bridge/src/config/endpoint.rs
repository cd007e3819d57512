//! Addresses that cannot be wrong: ingest listeners of Envoys, and workers.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Path of the ingest listener that takes pushes.
pub const PUSH_PATH: &str = "/kv/v1/push";

/// Where one Envoy takes pushes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IngestEndpoint {
    /// A Unix domain socket, `unix:/path`.
    Unix(PathBuf),
    /// TCP, `http://host:port`.
    Tcp {
        /// `host:port`, brackets around an IPv6 host.
        authority: String,
    },
}

impl IngestEndpoint {
    /// Reads `unix:/path` or `http://host:port`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return if path.is_empty() {
                Err("the socket path is empty".to_owned())
            } else {
                Ok(Self::Unix(path.into()))
            };
        }
        let Some(rest) = text.strip_prefix("http://") else {
            return Err(format!("`{text}` is neither unix:/path nor http://host:port"));
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let parsed: hyper::http::uri::Authority =
            authority.parse().map_err(|error| format!("`{authority}` is not host:port ({error})"))?;
        if parsed.port_u16().is_none_or(|port| port == 0) || parsed.host().is_empty() || authority.contains('@') {
            return Err(format!("`{authority}` is not host:port"));
        }
        Ok(Self::Tcp { authority: authority.to_owned() })
    }
}

impl fmt::Display for IngestEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp { authority } => write!(f, "http://{authority}"),
        }
    }
}

/// HTTP address of a worker, written exactly as Envoy writes a host: `ip:port` or `[ip]:port`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerAddress(SocketAddr);

impl WorkerAddress {
    /// Reads `ip:port`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let address: SocketAddr = text.parse().map_err(|_| format!("`{text}` is not ip:port"))?;
        if address.port() == 0 {
            return Err(format!("`{text}` has port 0"));
        }
        if address.ip().is_unspecified() {
            return Err(format!("`{text}` is a listen address, not one that can be reached"));
        }
        Ok(Self(address))
    }

    /// As the standard library's type.
    pub fn socket(self) -> SocketAddr {
        self.0
    }
}

impl fmt::Display for WorkerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ingest_endpoints() {
        let parse = |text| IngestEndpoint::parse(text).map(|endpoint| endpoint.to_string());
        assert_eq!(parse("unix:/run/a.sock").unwrap(), "unix:/run/a.sock");
        assert_eq!(parse("unix:///run/a.sock").unwrap(), "unix:/run/a.sock");
        assert_eq!(parse("http://envoy.local:9903/").unwrap(), "http://envoy.local:9903");
        assert_eq!(parse("http://[::1]:9903").unwrap(), "http://[::1]:9903");
        for bad in
            ["unix:", "https://a:1", "http://a", "http://a:0", "http://u@a:1", "http://a:1/x", "a:1", "http://:1"]
        {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn worker_addresses() {
        let parse = |text| WorkerAddress::parse(text).map(|address| address.to_string());
        assert_eq!(parse("10.0.0.1:8000").unwrap(), "10.0.0.1:8000");
        assert_eq!(parse("[fd00:0::1]:8000").unwrap(), "[fd00::1]:8000");
        for bad in ["localhost:8000", "10.0.0.1", "10.0.0.1:0", "0.0.0.0:80", "[::]:80", "10.0.0.1:99999", ""] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
