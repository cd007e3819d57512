use super::parse;
use crate::block::TokenId;
use crate::openai::{BodyError, Content, Endpoint, Exactness, Inexact, MediaId, PromptInput, ToolChoice};

fn chat(body: &str) -> crate::openai::InferenceRequest<'_> {
    parse(Endpoint::ChatCompletions, body.as_bytes()).expect(body)
}

#[test]
fn chat_fields_are_taken_and_the_rest_is_passed_over() {
    let request = chat(
        r#"{"temperature": 0.5, "model": "m", "stream": true, "stop": ["a", {"b": [1, null]}], "max_tokens": 7,
            "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": null, "name": "bob"}],
            "cache_salt": "s", "user": "u", "priority": -3, "n": 2, "max_completion_tokens": 9,
            "tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "none",
            "chat_template_kwargs": {"enable_thinking": false}, "add_generation_prompt": false,
            "continue_final_message": true, "reasoning_effort": "low", "documents": null}"#,
    );
    assert_eq!(request.model.as_deref(), Some("m"));
    assert!(request.stream);
    assert_eq!(request.max_tokens, Some(9));
    assert_eq!((request.n, request.priority), (2, Some(-3)));
    assert_eq!((request.cache_salt.as_deref(), request.user.as_deref()), (Some("s"), Some("u")));
    assert!(!request.add_special_tokens);
    assert_eq!(request.exactness, Exactness::Exact);
    let PromptInput::Chat(input) = request.prompt else { panic!("no chat") };
    assert_eq!(input.messages.len(), 2);
    assert!(matches!(&input.messages[0].content, Content::Text(text) if text.as_str() == Some("be brief")));
    assert!(matches!(input.messages[1].content, Content::Absent));
    assert_eq!(input.messages[1].fields.get("name").and_then(|name| name.as_str()), Some("bob"));
    assert_eq!(input.tool_choice, ToolChoice::None);
    assert_eq!(input.tools.and_then(|tools| tools.len()), Some(1));
    assert!(!input.add_generation_prompt && input.continue_final_message);
    assert_eq!(input.reasoning_effort.as_deref(), Some("low"));
    assert!(input.documents.is_none());
}

#[test]
fn the_last_of_duplicate_fields_wins() {
    let request = chat(r#"{"model":"a","messages":[{"role":"user","content":"1"}],"model":"b","messages":[]}"#);
    assert_eq!(request.model.as_deref(), Some("b"));
    assert!(matches!(request.prompt, PromptInput::Chat(input) if input.messages.is_empty()));
}

#[test]
fn wrong_types_are_named() {
    for (body, field) in [
        (r#"{"model": 5}"#, "model"),
        (r#"{"messages": {}}"#, "messages"),
        (r#"{"messages": [1]}"#, "messages"),
        (r#"{"messages": [{"content": "no role"}]}"#, "messages"),
        (r#"{"messages": [{"role": "user", "content": 5}]}"#, "messages"),
        (r#"{"messages": [{"role": "user", "content": [5]}]}"#, "messages"),
        (r#"{"tools": 5}"#, "tools"),
        (r#"{"add_generation_prompt": null}"#, "add_generation_prompt"),
        (r#"{"chat_template_kwargs": []}"#, "chat_template_kwargs"),
    ] {
        let error = parse(Endpoint::ChatCompletions, body.as_bytes()).expect_err(body);
        assert!(matches!(error, BodyError::Field { field: found, .. } if found == field), "{body}: {error}");
    }
    for body in ["", "[]", "5", "{", "{}x", "{\"model\": \"\\ud800\"}"] {
        let error = parse(Endpoint::ChatCompletions, body.as_bytes()).expect_err(body);
        assert!(matches!(error, BodyError::Json(_)), "{body}: {error}");
    }
}

#[test]
fn lone_surrogates_matter_only_where_text_is_needed() {
    assert_eq!(chat(r#"{"model":"m","metadata":{"\ud800":"\udfff"}}"#).model.as_deref(), Some("m"));
}

#[test]
fn images_are_named_by_what_they_point_to() {
    let url = "data:image/png;base64,AAAA";
    let request = chat(
        r#"{"messages": [{"role": "user", "content": ["hello", {"type": "text", "text": "see"},
            {"type": "image_url", "image_url": {"detail": "low", "url": "data:image/png;base64,AAAA"}},
            {"type": "image_url", "image_url": "data:image/png;base64,AAAA", "uuid": "me"}]}]}"#,
    );
    assert_eq!(request.exactness, Exactness::UpToMedia);
    let PromptInput::Chat(input) = request.prompt else { panic!("no chat") };
    let Content::Parts(parts) = &input.messages[0].content else { panic!("no parts") };
    let media: Vec<_> = parts.iter().map(|part| part.media).collect();
    assert_eq!(media, [None, None, Some(MediaId::of(url)), Some(MediaId::of("me"))]);
    assert_eq!(parts[0].fields.get("text").and_then(|text| text.as_str()), Some("hello"));
}

#[test]
fn content_hashes_name_media_as_in_events() {
    let hash = "00000000000000ff".to_owned() + &"a".repeat(48);
    assert_eq!(MediaId::of(&hash), MediaId(0xff));
}

fn completion(prompt: &str) -> (PromptInput<'static>, u32) {
    let body = format!(r#"{{"prompt": {prompt}, "max_tokens": "5"}}"#);
    let body: &'static str = body.leak();
    let request = parse(Endpoint::Completions, body.as_bytes()).expect(body);
    assert_eq!(request.max_tokens, Some(5));
    assert!(request.add_special_tokens);
    (request.prompt, request.prompts)
}

#[test]
fn completions_take_text_ids_and_lists_of_either() {
    assert!(matches!(completion(r#""hi""#), (PromptInput::Text(text), 1) if text == "hi"));
    assert!(matches!(completion(r#"["hi", "there"]"#), (PromptInput::Text(text), 2) if text == "hi"));
    assert!(matches!(completion("[1, 2]"), (PromptInput::Tokens(ids), 1) if ids == [TokenId(1), TokenId(2)]));
    assert!(matches!(completion("[[3], [4, 5]]"), (PromptInput::Tokens(ids), 2) if ids == [TokenId(3)]));
    assert!(matches!(completion("null"), (PromptInput::Absent, 0)));
    for bad in ["[1, \"a\"]", "[-1]", "[1.5]", "[4294967296]", "[null]", "{}"] {
        let body = format!(r#"{{"prompt": {bad}}}"#);
        assert!(parse(Endpoint::Completions, body.as_bytes()).is_err(), "{bad}");
    }
}

#[test]
fn what_only_the_engine_can_know_is_labelled() {
    let truncated = chat(r#"{"messages": [], "truncate_prompt_tokens": 5}"#);
    assert_eq!(truncated.exactness, Exactness::Approximate(Inexact::Truncated));
    let body = br#"{"prompt": "a", "prompt_embeds": "AAAA"}"#;
    let embeds = parse(Endpoint::Completions, body).expect("body");
    assert_eq!(embeds.exactness, Exactness::Approximate(Inexact::Embeddings));
    for (endpoint, body, expected) in [
        (Endpoint::Completions, r#"{"prompt": "def f(", "suffix": "return"}"#, Some(Inexact::Untranslated)),
        (Endpoint::Completions, r#"{"prompt": "def f(", "suffix": null}"#, None),
        (Endpoint::Responses, r#"{"input": "a", "truncation": "auto"}"#, Some(Inexact::Truncated)),
        (Endpoint::Responses, r#"{"input": "a", "truncation": "disabled"}"#, None),
    ] {
        let read = parse(endpoint, body.as_bytes()).expect("body").exactness;
        assert_eq!(read, expected.map_or(Exactness::Exact, Exactness::Approximate), "{body}");
    }
}

#[test]
fn the_engines_own_endpoints() {
    let body = br#"{"input_ids": [1, 2, 3], "sampling_params": {"max_new_tokens": 4, "n": 2}, "stream": true}"#;
    let request = parse(Endpoint::Generate, body).expect("body");
    assert!(matches!(request.prompt, PromptInput::Tokens(ids) if ids.len() == 3));
    assert_eq!((request.max_tokens, request.n, request.stream), (Some(4), 2, true));
    let body = br#"{"text": ["a", "b"], "image_data": "x"}"#;
    let request = parse(Endpoint::Generate, body).expect("body");
    assert!(matches!(request.prompt, PromptInput::Text(text) if text == "a"));
    assert_eq!(request.exactness, Exactness::Approximate(Inexact::Untranslated));
    let body = br#"{"token_ids": [7], "model": "m", "sampling_params": {"max_tokens": 3}, "features": null}"#;
    let request = parse(Endpoint::InferenceGenerate, body).expect("body");
    assert!(matches!(request.prompt, PromptInput::Tokens(ids) if ids == [TokenId(7)]));
    assert_eq!((request.max_tokens, request.exactness), (Some(3), Exactness::Exact));
}

#[test]
fn embeddings_take_input_or_messages() {
    let request = parse(Endpoint::Embeddings, br#"{"input": ["a"], "model": "e"}"#).expect("body");
    assert!(request.add_special_tokens);
    assert!(matches!(request.prompt, PromptInput::Text(text) if text == "a"));
    let body = br#"{"messages": [{"role": "user", "content": "a"}]}"#;
    let request = parse(Endpoint::Embeddings, body).expect("body");
    assert!(matches!(request.prompt, PromptInput::Chat(input) if !input.add_generation_prompt));
}

#[test]
fn reasoning_has_its_older_name_in_chat_completions_only() {
    let body = r#"{"messages": [{"role": "assistant", "name": "n", "reasoning_content": "a", "reasoning": null}]}"#;
    for (endpoint, expected) in [(Endpoint::ChatCompletions, true), (Endpoint::Embeddings, false)] {
        let PromptInput::Chat(input) = parse(endpoint, body.as_bytes()).expect(body).prompt else { panic!("no chat") };
        let fields = &input.messages[0].fields;
        assert_eq!(fields.get("reasoning_content").is_some(), expected, "{endpoint:?}");
        assert_eq!(fields.get("name").and_then(|name| name.as_str()), Some("n"));
    }
}

#[test]
fn what_the_tokenizer_adds_is_for_the_endpoint_to_say() {
    let body = |asked: &str| format!(r#"{{"input": "a", "messages": [] {asked}}}"#);
    for (endpoint, expected) in [
        (Endpoint::Responses, [true; 3]),
        (Endpoint::Messages, [false; 3]),
        (Endpoint::ChatCompletions, [false, false, true]),
        (Endpoint::Completions, [true, false, true]),
    ] {
        let found = ["", r#", "add_special_tokens": false"#, r#", "add_special_tokens": true"#]
            .map(|asked| parse(endpoint, body(asked).as_bytes()).expect(asked).add_special_tokens);
        assert_eq!(found, expected, "{endpoint:?}");
    }
}

#[test]
fn what_only_the_engine_can_complete_is_approximate() {
    let body = |id: &str| {
        format!(
            r#"{{"max_tokens": 1, "messages": [{{"role": "user", "content": "x"}},
                {{"role": "assistant", "content": [{{"type": "tool_use", {id} "name": "f", "input": {{}}}}]}}]}}"#
        )
    };
    let exactness = |endpoint, body: &str| parse(endpoint, body.as_bytes()).expect(body).exactness;
    assert_eq!(exactness(Endpoint::Messages, &body("\"id\": \"a\",")), Exactness::Exact);
    for id in ["", "\"id\": \"\",", "\"id\": null,"] {
        let untranslated = Exactness::Approximate(Inexact::Untranslated);
        assert_eq!(exactness(Endpoint::Messages, &body(id)), untranslated, "{id}");
    }
    let conversation = r#"{"input": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]}"#;
    assert_eq!(exactness(Endpoint::Embeddings, conversation), Exactness::Approximate(Inexact::Untranslated));
    assert_eq!(exactness(Endpoint::Embeddings, r#"{"input": ["a"]}"#), Exactness::Exact);
}
