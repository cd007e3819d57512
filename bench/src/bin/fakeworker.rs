//! A trivially fast OpenAI-compatible worker, so that what is measured is what lies before it.
//!
//! `fakeworker PORT [PORT...]`: one thread, any number of ports. It reads every body and answers at once: server-sent
//! events when the body asks for a stream, one JSON document otherwise. `GET` answers `ok`, for health probes.

use std::convert::Infallible;

use anyhow::{Context, Result};
use bytes::Bytes;
use clap::Parser;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

const ANSWER: &str = r#"{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}"#;
const EVENTS: &str = concat!(
    r#"data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"ok"},"finish_reason":"stop"}]}"#,
    "\n\ndata: [DONE]\n\n"
);
/// Where bodies made by the load generator say whether they want a stream.
const STREAM_MARK: &[u8] = br#""stream":true"#;
const MARK_WITHIN: usize = 200;

#[derive(Parser)]
struct Arguments {
    /// Ports on 127.0.0.1.
    #[arg(required = true)]
    ports: Vec<u16>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut servers = Vec::new();
    for port in Arguments::parse().ports {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.with_context(|| format!("port {port}"))?;
        servers.push(tokio::spawn(accept(listener)));
    }
    for server in servers {
        server.await??;
    }
    Ok(())
}

async fn accept(listener: TcpListener) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(serve(stream));
    }
}

async fn serve(stream: TcpStream) {
    // A client that leaves in the middle is no concern of a measurement.
    let _ended = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)).await;
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.method() == Method::GET {
        return Ok(Response::new(Full::new(Bytes::from_static(b"ok"))));
    }
    let (content_type, text) = if wants_stream(request.into_body()).await {
        ("text/event-stream", EVENTS)
    } else {
        ("application/json", ANSWER)
    };
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(content_type));
    Ok(response)
}

/// Reads the whole body; whether its first bytes ask for a stream.
async fn wants_stream(mut body: Incoming) -> bool {
    let mut start: Vec<u8> = Vec::with_capacity(MARK_WITHIN);
    while let Some(Ok(frame)) = body.frame().await {
        if let Ok(data) = frame.into_data() {
            let wanted = MARK_WITHIN - start.len();
            start.extend(data.iter().take(wanted));
        }
    }
    start.windows(STREAM_MARK.len()).any(|window| window == STREAM_MARK)
}
