//! The event bridge: follows engines' KV-cache events, keeps the exact index and pushes it into Envoy.
//!
//! | module | what |
//! |---|---|
//! | [`config`] | the configuration file, resolved into types that cannot be wrong |
//! | [`discovery`] | a pool's workers: listed, or from a watched file |
//! | [`probe`] | health and load of workers over HTTP |
//! | [`stream`] | the event sockets: connect, drain, replay |
//! | [`engine`] | bytes of an engine's event messages to typed events; no sockets, no clock |
//! | [`tokenizer`] | model files to compiled tokenizer; the Hugging Face library as reference |
//! | [`ingest`] | order, gaps and restarts of streams; events to the prefix index of a pool; no sockets, no clock |
//! | [`pool`] | owner of a pool's state; who is in the target table, which pages changed |
//! | [`eds`] | Envoy's endpoint file |
//! | [`cross_check`] | our prompts against those an engine says it computes |
//! | [`policy`] | route policies: documents to what the filter evaluates |
//! | [`explain`] | what the filter would do with a request now |
//! | [`simulate`] | a trace replayed against modelled engines, to judge a policy by |
//! | [`publish`] | pushes to each Envoy, and takes its replies |
//! | [`metrics`] | Prometheus metrics |
//! | [`admin`] | admin HTTP: health, readiness, state |
//! | [`bridge`] | all of it running: start and stop |
//! | [`cli`] | the command line |

pub mod admin;
pub mod bridge;
pub mod cli;
pub mod clock;
pub mod config;
pub mod cross_check;
pub mod discovery;
pub mod eds;
pub mod engine;
pub mod explain;
pub mod ingest;
pub mod metrics;
pub mod policy;
pub mod pool;
pub mod probe;
pub mod publish;
#[cfg(test)]
mod scratch;
pub mod simulate;
pub mod stream;
pub mod tokenizer;
