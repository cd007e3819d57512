//! Endpoints to the text of the file.

use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use crate::config::WorkerAddress;

/// One endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// Its address.
    pub address: WorkerAddress,
    /// It finishes what it has; Envoy's own balancing gives it nothing new.
    pub draining: bool,
}

/// Text of the endpoint file of `cluster`. Equal endpoints give equal text, version included.
pub fn render(cluster: &str, endpoints: &[Endpoint]) -> String {
    let mut sorted = endpoints.to_vec();
    sorted.sort_unstable();
    let endpoints: Vec<Value> = sorted.into_iter().map(lb_endpoint).collect();
    let localities = if endpoints.is_empty() { json!([]) } else { json!([{ "lb_endpoints": endpoints }]) };
    let resource = json!({
        "@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
        "cluster_name": cluster,
        "endpoints": localities,
    });
    let version = format!("{:016x}", xxh3_64(resource.to_string().as_bytes()));
    let mut text = format!("{:#}", json!({ "version_info": version, "resources": [resource] }));
    text.push('\n');
    text
}

fn lb_endpoint(endpoint: Endpoint) -> Value {
    let Endpoint { address, draining } = endpoint;
    let socket = address.socket();
    let endpoint = json!({
        "address": { "socket_address": { "address": socket.ip().to_string(), "port_value": socket.port() } }
    });
    if draining {
        json!({ "endpoint": endpoint, "health_status": "DRAINING" })
    } else {
        json!({ "endpoint": endpoint })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(address: &str, draining: bool) -> Endpoint {
        Endpoint { address: WorkerAddress::parse(address).unwrap(), draining }
    }

    #[test]
    fn order_does_not_matter_and_content_does() {
        let (a, b) = (endpoint("10.0.0.1:80", false), endpoint("[fd00::1]:81", false));
        assert_eq!(render("w", &[a, b]), render("w", &[b, a]));
        assert_ne!(render("w", &[a]), render("w", &[a, b]));
        assert_ne!(render("w", &[a]), render("w", &[endpoint("10.0.0.1:80", true)]));
    }

    #[test]
    fn shape() {
        let text = render("w", &[endpoint("[fd00::1]:81", false), endpoint("10.0.0.1:80", true)]);
        let value: Value = serde_json::from_str(&text).unwrap();
        let resource = &value["resources"][0];
        assert_eq!(resource["cluster_name"], "w");
        let endpoints = &resource["endpoints"][0]["lb_endpoints"];
        assert_eq!(
            endpoints[0]["endpoint"]["address"]["socket_address"],
            json!({"address":"10.0.0.1","port_value":80})
        );
        assert_eq!(endpoints[0]["health_status"], "DRAINING");
        assert_eq!(endpoints[1]["endpoint"]["address"]["socket_address"]["address"], "fd00::1");
        assert_eq!(endpoints[1].get("health_status"), None);
        assert_eq!(serde_json::from_str::<Value>(&render("w", &[])).unwrap()["resources"][0]["endpoints"], json!([]));
    }
}
