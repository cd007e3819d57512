//! The self-test's conversations: with the templates of real models, and with templates that are not what the core was compiled from.

use std::path::PathBuf;

use event_bridge::tokenizer::corpus::{Conversation, conversations};
use event_bridge::tokenizer::{
    BridgeTokenizer, ChatTest, FirstDifference, ModelFiles, Reference, RenderOptions, self_test_chats,
};
use kv_routing::openai::{Endpoint, PromptInput, parse};
use kv_routing::tokens::template::{Renderer, RequestedFormat};
use kv_routing::wire::UnixMillis;

use crate::models::{compiled, files, prompter};

/// Tokenizer and template of one model, the template of another (or none), as the self-test compares them.
fn tested(core: &ModelFiles, judge: &ModelFiles) -> Result<ChatTest, FirstDifference> {
    let mut core = prompter(compiled(core).bytes, 4 << 20);
    let judge = BridgeTokenizer::as_written(Reference::load(judge).unwrap(), judge, &RenderOptions::default());
    self_test_chats(&mut core, &judge)
}

#[test]
fn real_models_render_and_tokenize_every_conversation_as_the_library_does() {
    for (name, refused) in [("qwen2_5", 0), ("qwen3", 0), ("llama3_1", 0), ("deepseek_v3", 0), ("gemma3", 9)] {
        let files = files(name);
        let outcome = tested(&files, &files).unwrap_or_else(|difference| panic!("{name}: {difference}"));
        println!("{name}: {outcome:?}");
        assert_eq!(outcome.equal + outcome.refused, u32::try_from(conversations().len()).unwrap(), "{name}");
        assert_eq!(outcome.refused, refused, "{name}: {:?}", outcome.refusal);
        assert!(outcome.tokens > 10_000 && outcome.problem().is_none(), "{name}");
    }
}

/// As above without tokens, for every template there is: what the filter makes of a template never changes what it renders.
#[test]
fn no_template_renders_otherwise_than_it_is_written() {
    let sources = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/data/templates/sources");
    let (mut templates, mut equal, mut refused) = (0, 0, 0);
    for entry in std::fs::read_dir(sources).unwrap() {
        let path = entry.unwrap().path();
        let template = std::fs::read(&path).unwrap();
        let config = br#"{"bos_token":"<s>","eos_token":"</s>"}"#;
        let files = ModelFiles { template: Some(template), config: Some(config.to_vec()), ..ModelFiles::default() };
        // Refused at load; and the licence that lies beside them.
        let Ok(config) = files.templates(RequestedFormat::Auto) else { continue };
        templates += 1;
        let renderer = Renderer::compile(config.clone()).unwrap();
        let as_written = Renderer::compile_as_written(config).unwrap();
        for Conversation { name, path: endpoint, body } in conversations() {
            let request = parse(Endpoint::of_path(endpoint).unwrap(), body.as_bytes()).unwrap();
            let PromptInput::Chat(chat) = &request.prompt else { panic!("{name}") };
            let now = UnixMillis(1_796_051_160_000);
            match (renderer.render(chat, now), as_written.render(chat, now)) {
                (Ok(ours), Ok(theirs)) if ours == theirs => equal += 1,
                (Err(_), Err(_)) => refused += 1,
                (ours, theirs) => panic!("{}: {name}:\n{ours:?}\n{theirs:?}", path.display()),
            }
        }
    }
    println!("{templates} templates, {equal} equal, {refused} refused by both");
    assert!(templates >= 74 && equal > 2000, "{templates} templates, {equal} equal, {refused} refused");
}

fn with_template(files: &ModelFiles, change: impl Fn(String) -> String) -> ModelFiles {
    let config = files.templates(RequestedFormat::Auto).unwrap();
    ModelFiles { template: Some(change(config.template).into_bytes()), ..files.clone() }
}

#[test]
fn the_first_difference_is_named() {
    let files = files("qwen2_5");
    // Only conversations with tool results come this way.
    let other = with_template(&files, |template| template.replace("</tool_response>", "</tool_answer>"));
    let difference = tested(&other, &files).unwrap_err();
    assert!(difference.concerns_rendering());
    let text = difference.to_string();
    for part in ["\"a tool call and its result\"", "</tool_answer>", "</tool_response>"] {
        assert!(text.contains(part), "{part}: {text}");
    }

    let raising = with_template(&files, |template| {
        format!("{{% if messages[0].role == 'assistant' %}}{{{{ raise_exception('not you') }}}}{{% endif %}}{template}")
    });
    for (core, judge, by) in
        [(&raising, &files, "the filter's form"), (&files, &raising, "the template as it is written")]
    {
        let text = tested(core, judge).unwrap_err().to_string();
        for part in ["\"an assistant first\"", by, "not you"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    let both = tested(&raising, &raising).unwrap();
    assert_eq!((both.refused, both.problem()), (1, None));

    // Prints contents as JSON, where the place of an image cannot be found.
    let printing = with_template(&files, |_| {
        "{% for m in messages %}{{ m.content | tojson }}{% for p in m.content %}{% endfor %}{% endfor %}".to_owned()
    });
    tested(&printing, &printing).unwrap();

    let never = with_template(&files, |_| "{{ raise_exception('no chats') }}".to_owned());
    let nothing = tested(&never, &never).unwrap();
    assert_eq!(nothing.equal, 0);
    assert!(nothing.problem().unwrap().contains("no chats"));
}

#[test]
fn tokens_that_differ_are_not_the_templates_fault() {
    let files = files("qwen2_5");
    let mut json: serde_json::Value = serde_json::from_slice(&files.tokenizer).unwrap();
    json["normalizer"] = serde_json::Value::Null;
    let other = ModelFiles { tokenizer: serde_json::to_vec(&json).unwrap(), ..files.clone() };
    let difference = tested(&files, &other).unwrap_err();
    assert!(!difference.concerns_rendering() && difference.to_string().contains("e\\u{301}"), "{difference}");
}
