//! Bodies against what the engines document, and against the rule that every other byte stays.

use proptest::prelude::*;

use super::edit::{Edit, edit};
use super::*;

const TRANSFER: Transfer<'_> = Transfer {
    id: 0x7fff_ffff_0000_0001,
    bootstrap_host: "10.0.0.7",
    bootstrap_port: 8998,
    ranks: 2,
    engine_id: Some("e-1"),
    told_tools: false,
};

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

fn prefill(protocol: Protocol, body: &str) -> String {
    text(prefill_body(protocol, body.as_bytes(), &TRANSFER).unwrap().unwrap())
}

fn decode(protocol: Protocol, body: &str, answer: &str) -> Result<String, HandoffError> {
    let answer = PrefillAnswer::read(answer.as_bytes())?;
    decode_body(protocol, body.as_bytes(), &TRANSFER, Some(&answer)).map(|body| text(body.unwrap()))
}

#[test]
fn edits_leave_every_other_byte() {
    let body = br#" { "a" : 1e400 , "b":[1, 2], "stream" : true, "\u0061": 12345678901234567890, "c":"\u00e9\/" } "#;
    let edits = [
        Edit::Set("stream", b"false".to_vec()),
        Edit::Remove("b"),
        Edit::Set("z", b"{}".to_vec()),
        Edit::Replace("y", b"1".to_vec()),
    ];
    let expected = r#" { "a" : 1e400, "stream" : false, "\u0061": 12345678901234567890, "c":"\u00e9\/","z":{} } "#;
    assert_eq!(text(edit(body, &edits).unwrap()), expected);
    assert_eq!(text(edit(b"{ }", &[Edit::Set("a", b"1".to_vec())]).unwrap()), "{ \"a\":1}");
    assert_eq!(text(edit(br#"{"a":1,"a":2,"b":3}"#, &[Edit::Remove("a")]).unwrap()), r#"{"b":3}"#);
    assert_eq!(text(edit(br#"{"a":1,"a":2}"#, &[Edit::Set("a", b"9".to_vec())]).unwrap()), r#"{"a":9,"a":9}"#);
    assert_eq!(text(edit(br#"{"a":1,"b":2}"#, &[Edit::Remove("b"), Edit::Remove("a")]).unwrap()), "{}");
    assert!(matches!(edit(b"[1]", &[]), Err(HandoffError::Body(_))));
}

#[test]
fn nixl() {
    let body = r#"{"model":"m","messages":[],"stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":77,"min_tokens":3,"seed":12345678901234567890}"#;
    let sent: serde_json::Value = serde_json::from_str(&prefill(Protocol::Nixl, body)).unwrap();
    let expected = serde_json::json!({
        "model": "m", "messages": [], "stream": false, "max_completion_tokens": 1, "seed": 12345678901234567890_u64, "max_tokens": 1,
        "kv_transfer_params": {"do_remote_decode": true, "do_remote_prefill": false, "remote_engine_id": null,
                               "remote_block_ids": null, "remote_host": null, "remote_port": null}
    });
    assert_eq!(sent, expected);
    let params = r#"{"remote_engine_id":"x", "remote_block_ids":[[1,2]],"big":18446744073709551615}"#;
    let answer = format!(r#"{{"id":"1","choices":[{{"finish_reason":"length"}}],"kv_transfer_params":{params}}}"#);
    let decoded = decode(Protocol::Nixl, body, &answer).unwrap();
    assert_eq!(decoded, format!("{},\"kv_transfer_params\":{params}}}", body.strip_suffix('}').unwrap()));
    let missing = decode(Protocol::Nixl, body, r#"{"choices":[],"kv_transfer_params":null}"#).unwrap_err();
    assert!(matches!(missing, HandoffError::Missing { field: "kv_transfer_params", .. }));
    let released = text(release_body(Protocol::Nixl, decoded.as_bytes(), &TRANSFER).unwrap());
    assert!(released.contains("\"max_completion_tokens\":1") && released.contains(params), "{released}");
}

#[test]
fn mooncake_sides_share_the_transfer_id() {
    let body = r#"{"prompt":"a","max_tokens":5}"#;
    let id = "xfer-7fffffff00000001";
    assert!(prefill(Protocol::Mooncake, body).contains(&format!("\"transfer_id\":\"{id}\"")));
    let decoded = decode(Protocol::Mooncake, body, "{}").unwrap();
    let expected = format!(
        r#"{{"prompt":"a","max_tokens":5,"kv_transfer_params":{{"do_remote_decode":false,"do_remote_prefill":true,"remote_bootstrap_addr":"http://10.0.0.7:8998","remote_engine_id":"e-1","transfer_id":"{id}"}}}}"#
    );
    assert_eq!(decoded, expected);
    let nameless = Transfer { engine_id: None, ..TRANSFER };
    assert_eq!(decode_body(Protocol::Mooncake, b"{}", &nameless, None), Err(HandoffError::Unknown("engine_id")));
}

#[test]
fn sglang_sides_are_equal_and_batches_get_arrays() {
    let body = r#"{"prompt":"a"}"#;
    let both = prefill(Protocol::Sglang, body);
    assert_eq!(
        both,
        r#"{"prompt":"a","bootstrap_host":"10.0.0.7","bootstrap_port":8998,"bootstrap_room":9223372032559808513}"#
    );
    assert_eq!(both, decode(Protocol::Sglang, body, "{}").unwrap());
    let batch = prefill(Protocol::Sglang, r#"{"prompt":[[1],[2]]}"#);
    let sent: serde_json::Value = serde_json::from_str(&batch).unwrap();
    assert_eq!(sent["bootstrap_port"], serde_json::json!([8998, 8998]));
    assert_eq!(sent["bootstrap_room"], serde_json::json!([TRANSFER.id, TRANSFER.id + 2]));
    assert!(!prefill(Protocol::Sglang, r#"{"prompt":[1,2]}"#).contains("[8998"));
}

#[test]
fn trtllm_ids_survive() {
    let body = r#"{"prompt":"a","max_tokens":5}"#;
    let sent = prefill(Protocol::TensorRtLlm, body);
    assert!(
        sent.contains(
            r#""disaggregated_params":{"request_type":"context_only","disagg_request_id":9223372032559808513}"#
        ),
        "{sent}"
    );
    let answer = r#"{"choices":[{"disaggregated_params":{"request_type":"context_only","ctx_request_id":18446744073709551615,"opaque_state":"x"}}],"prompt_token_ids":[5,6]}"#;
    let expected = r#"{"prompt":[5,6],"max_tokens":5,"disaggregated_params":{"request_type":"generation_only","ctx_request_id":18446744073709551615,"opaque_state":"x"}}"#;
    assert_eq!(decode(Protocol::TensorRtLlm, body, answer).unwrap(), expected);
    let chat = decode(Protocol::TensorRtLlm, r#"{"messages":[]}"#, answer).unwrap();
    assert!(chat.contains(r#""prompt_token_ids":[5,6]"#), "{chat}");
    let silent = r#"{"choices":[{"disaggregated_params":{}}]}"#;
    let text = decode(Protocol::TensorRtLlm, r#"{"prompt":"a"}"#, silent).unwrap();
    assert_eq!(text, r#"{"prompt":"a","disaggregated_params":{"request_type":"generation_only"}}"#);
}

fn value(body: &str) -> serde_json::Value {
    serde_json::from_str(body).unwrap()
}

/// To its request model both are one field, and a second one is forbidden.
#[test]
fn trtllm_is_told_one_limit() {
    let limits = |body: &str| {
        let of =
            |body: serde_json::Value| (body.get("max_tokens").cloned(), body.get("max_completion_tokens").cloned());
        let decoded = format!(r#"{},"disaggregated_params":{{}}}}"#, body.strip_suffix('}').unwrap());
        let released = text(release_body(Protocol::TensorRtLlm, decoded.as_bytes(), &TRANSFER).unwrap());
        let prefill = of(value(&prefill(Protocol::TensorRtLlm, body)));
        assert_eq!(prefill, of(value(&released)));
        prefill
    };
    let one = || Some(serde_json::json!(1));
    assert_eq!(limits(r#"{"messages":[]}"#), (one(), None));
    assert_eq!(limits(r#"{"messages":[],"max_tokens":9}"#), (one(), None));
    assert_eq!(limits(r#"{"messages":[],"max_completion_tokens":9}"#), (None, one()));
    assert_eq!(limits(r#"{"messages":[],"max_completion_tokens":null}"#), (None, one()));
    // The engine refuses the client's own body, and so it should.
    assert_eq!(limits(r#"{"max_tokens":9,"max_completion_tokens":9}"#), (one(), one()));
}

#[test]
fn one_token_is_no_tool_call() {
    let tools = r#""tools":[{"type":"function","function":{"name":"f"}}]"#;
    let demanded = ["\"required\"", r#"{"type":"function","function":{"name":"f"}}"#];
    for protocol in [Protocol::Nixl, Protocol::Mooncake] {
        for choice in demanded {
            let body = format!(r#"{{{tools},"tool_choice": {choice},"messages":[]}}"#);
            let sent = prefill(protocol, &body);
            assert!(sent.starts_with(&format!(r#"{{{tools},"tool_choice": null,"messages":[]"#)), "{sent}");
            let answer = r#"{"kv_transfer_params":{}}"#;
            let decoded = decode(protocol, &body, answer).unwrap();
            assert_eq!(value(&decoded)["tool_choice"], value(choice), "the answer is the tool call");
            let released = text(release_body(protocol, decoded.as_bytes(), &TRANSFER).unwrap());
            assert_eq!(value(&released)["tool_choice"], serde_json::Value::Null);
            // Engines whose prompts name the tool.
            let told = Transfer { told_tools: true, ..TRANSFER };
            let sent = text(prefill_body(protocol, body.as_bytes(), &told).unwrap().unwrap());
            assert_eq!(value(&sent)["tool_choice"], value(choice));
            let released = text(release_body(protocol, decoded.as_bytes(), &told).unwrap());
            assert_eq!(value(&released)["tool_choice"], value(choice));
        }
        for left in ["\"auto\"", "\"none\"", "null"] {
            let sent = prefill(protocol, &format!(r#"{{{tools},"tool_choice":{left}}}"#));
            assert_eq!(value(&sent)["tool_choice"], value(left));
        }
    }
    let body = format!(r#"{{{tools},"tool_choice":"required"}}"#);
    for first_token_is_the_answers in [Protocol::TensorRtLlm, Protocol::Sglang] {
        assert_eq!(value(&prefill(first_token_is_the_answers, &body))["tool_choice"], "required");
    }
}

#[test]
fn a_prefill_that_finished_by_itself_is_known() {
    let answer = |reason: &str| {
        let text = format!(r#"{{"choices":[{{"finish_reason":{reason}}}]}}"#);
        PrefillAnswer::read(text.as_bytes()).unwrap().is_complete()
    };
    assert!(answer("\"stop\"") && !answer("\"length\"") && !answer("null"));
}

#[test]
fn rooms_name_the_rank() {
    for random in [0, 1, 12_345, u64::MAX, u64::MAX - 5] {
        for ranks in [1, 2, 3, 8] {
            for rank in 0..ranks {
                let room = bootstrap_room(random, Some(rank), ranks);
                assert!(room < 1 << 63 && room % u64::from(ranks) == u64::from(rank), "{random} {rank} of {ranks}");
            }
        }
        assert!(bootstrap_room(random, None, 1) < 1 << 63);
    }
}

proptest! {
    #[test]
    fn hostile_bodies_do_not_panic(body: Vec<u8>, answer: Vec<u8>) {
        for protocol in Protocol::ALL {
            let _ = prefill_body(protocol, &body, &TRANSFER);
            if let Ok(answer) = PrefillAnswer::read(&answer) {
                let _ = decode_body(protocol, &body, &TRANSFER, Some(&answer));
            }
        }
    }

    #[test]
    fn edited_objects_are_what_serde_makes_of_them(
        members in proptest::collection::vec(("[a-d]", prop_oneof![Just("1"), Just("\"x\""), Just("[1, {}]"), Just("null")]), 0..6),
        space in "[ \n\t]{0,2}",
    ) {
        let inner: Vec<String> = members.iter().map(|(key, value)| format!("{space}\"{key}\"{space}:{space}{value}{space}")).collect();
        let body = format!("{{{space}{}}}", inner.join(","));
        let edits = [Edit::Set("a", b"7".to_vec()), Edit::Replace("b", b"8".to_vec()), Edit::Remove("c")];
        let edited: serde_json::Value = serde_json::from_slice(&edit(body.as_bytes(), &edits).unwrap()).unwrap();
        let mut expected: serde_json::Value = serde_json::from_str(&body).unwrap();
        let object = expected.as_object_mut().unwrap();
        object.insert("a".into(), 7.into());
        object.remove("c");
        if let Some(value) = object.get_mut("b") {
            *value = 8.into();
        }
        prop_assert_eq!(edited, expected);
    }
}
