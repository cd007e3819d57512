//! Asking an engine for the tokens of prompts.

use std::collections::BTreeSet;

use bytes::Bytes;
use hyper::{Method, StatusCode};
use kv_routing::block::TokenId;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::ours::Asked;
use super::questions::Call;
use crate::probe::{ProbeError, WorkerClient};

/// Characters of an engine's words that are kept.
const KEPT: usize = 300;

/// What an engine says of one prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Its tokens.
    Tokens(Vec<TokenId>),
    /// It does not take the request, in its own words.
    Refused(String),
    /// It cannot be asked for such a prompt.
    NotOffered,
}

/// Tokens, as `/tokenize` and `/render` call them.
#[derive(Deserialize)]
struct Told {
    #[serde(alias = "token_ids")]
    tokens: Vec<u32>,
}

#[derive(Deserialize)]
struct Models {
    data: Vec<Served>,
}

#[derive(Deserialize)]
struct Served {
    id: String,
}

/// An answer to every question, in their order.
///
/// # Errors
/// [`ProbeError`] when the engine cannot be reached.
pub(super) async fn all(client: &WorkerClient, questions: &[Asked]) -> Result<Vec<Answer>, ProbeError> {
    let model = served_model(client).await?;
    let mut missing = BTreeSet::new();
    let mut answers = Vec::with_capacity(questions.len());
    for (question, _) in questions {
        let mut answer = Answer::NotOffered;
        for call in &question.calls {
            if missing.contains(&call.path) {
                continue;
            }
            answer = one(client, call, model.as_deref()).await?;
            if answer != Answer::NotOffered {
                break;
            }
            missing.insert(call.path.clone());
        }
        answers.push(answer);
    }
    Ok(answers)
}

/// The name that the engine gives its model; some endpoints insist on one.
async fn served_model(client: &WorkerClient) -> Result<Option<String>, ProbeError> {
    let (status, body) = client.send(Method::GET, "/v1/models", &[], Bytes::new()).await?;
    let models: Option<Models> = status.is_success().then(|| serde_json::from_slice(&body).ok()).flatten();
    Ok(models.and_then(|models| models.data.into_iter().next()).map(|first| first.id))
}

async fn one(client: &WorkerClient, call: &Call, model: Option<&str>) -> Result<Answer, ProbeError> {
    let mut body: Map<String, Value> = call.body.clone();
    if let Some(model) = model {
        body.insert("model".to_owned(), model.into());
    }
    let body = Bytes::from(Value::Object(body).to_string());
    let json = [("content-type".to_owned(), "application/json".to_owned())];
    let (status, body) = client.send(Method::POST, &call.path, &json, body).await?;
    match status {
        // vLLM answers 403 for what is there and switched off.
        StatusCode::FORBIDDEN
        | StatusCode::NOT_FOUND
        | StatusCode::METHOD_NOT_ALLOWED
        | StatusCode::NOT_IMPLEMENTED => Ok(Answer::NotOffered),
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            Err(ProbeError::Status { call: format!("POST {}", call.path), status })
        }
        _ if status.is_success() => Ok(match serde_json::from_slice::<Told>(&body) {
            Ok(Told { tokens }) => Answer::Tokens(tokens.into_iter().map(TokenId).collect()),
            Err(_) => Answer::Refused(format!("an answer without tokens: {}", words(&body))),
        }),
        _ => Ok(Answer::Refused(format!("{status}: {}", words(&body)))),
    }
}

fn words(body: &[u8]) -> String {
    String::from_utf8_lossy(body).chars().take(KEPT).collect()
}
