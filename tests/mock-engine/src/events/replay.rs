//! The replay protocol of vLLM 0.26 and later: a request `[identity, "", start]` is answered with
//! `[identity, "", topic, sequence, payload]` per retained batch and `[identity, "", "", ff x8, ""]` at the end.

use std::collections::VecDeque;

use bytes::Bytes;
use zeromq::{RouterSocket, SocketSend, ZmqMessage};

use super::publisher::EventFaults;

const END: [u8; 8] = [0xff; 8];

/// Answers one replay request. A request that is not understood is only logged, as the real publisher does.
pub(super) async fn answer(
    router: &mut RouterSocket,
    request: ZmqMessage,
    topic: &Bytes,
    retained: &VecDeque<(u64, Bytes)>,
    faults: &EventFaults,
) {
    let Some((identity, start)) = parse(&request) else {
        tracing::warn!(frames = request.len(), "replay request not understood: expected [identity, \"\", start]");
        return;
    };
    if faults.replay_silent {
        return;
    }
    for (sequence, payload) in retained.iter().filter(|(sequence, _)| *sequence >= start) {
        let reply = reply(&identity, topic.clone(), &sequence.to_be_bytes(), payload.clone());
        if let Err(error) = router.send(reply).await {
            tracing::warn!(%error, "replay stopped: peer gone");
            return;
        }
    }
    if faults.replay_without_end {
        return;
    }
    if let Err(error) = router.send(reply(&identity, Bytes::new(), &END, Bytes::new())).await {
        tracing::warn!(%error, "replay end marker not sent");
    }
}

fn parse(request: &ZmqMessage) -> Option<(Bytes, u64)> {
    let (identity, delimiter, start) = (request.get(0)?, request.get(1)?, request.get(2)?);
    if request.len() != 3 || !delimiter.is_empty() {
        return None;
    }
    let start: [u8; 8] = start.as_ref().try_into().ok()?;
    Some((identity.clone(), u64::from_be_bytes(start)))
}

fn reply(identity: &Bytes, topic: Bytes, sequence: &[u8; 8], payload: Bytes) -> ZmqMessage {
    let mut message = ZmqMessage::from(identity.clone());
    message.push_back(Bytes::new());
    message.push_back(topic);
    message.push_back(Bytes::copy_from_slice(sequence));
    message.push_back(payload);
    message
}
