use super::{
    ContentFormat, ModelFiles, RenderError, Rendered, Renderer, RequestedFormat, TemplateConfig, TemplateError,
    TemplateInput,
};
use crate::openai::{ChatInput, Endpoint, MediaId, PromptInput, parse};
use crate::wire::UnixMillis;

/// 2026-11-30 16:05:07.123 UTC, a Monday.
const NOW: UnixMillis = UnixMillis(1_796_054_707_123);

const STRINGS: &str = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
const PARTS: &str = "{% for m in messages %}<{{ m.role }}>{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}{% else %}[{{ part.type }}]{% endif %}{% endfor %}|{% endfor %}";

fn renderer(template: &str) -> Renderer {
    let content_format = super::analysis::content_format(template);
    Renderer::compile(TemplateConfig { template: template.to_owned(), content_format, ..TemplateConfig::default() })
        .expect("template")
}

fn chat(body: &str) -> Box<ChatInput<'_>> {
    match parse(Endpoint::ChatCompletions, body.as_bytes()).expect(body).prompt {
        PromptInput::Chat(chat) => chat,
        other => panic!("{other:?}"),
    }
}

fn render(template: &str, body: &str) -> Result<Rendered, RenderError> {
    renderer(template).render(&chat(body), NOW)
}

fn text(template: &str, body: &str) -> String {
    render(template, body).expect(body).text
}

const PICTURES: &str = r#"{"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": [
    {"type": "text", "text": "see "}, {"type": "image_url", "image_url": {"url": "a"}}, {"type": "text", "text": " and "},
    {"type": "input_audio", "input_audio": {"data": "b", "format": "wav"}}]}]}"#;

#[test]
fn prompts_with_media_are_exact_up_to_the_first() {
    let rendered = render(PARTS, PICTURES).expect("rendered");
    assert_eq!(rendered.text, "<system>S|<user>see  and |");
    assert_eq!(rendered.exact_bytes, "<system>S|<user>see ".len());
    let behind = "<system>S|<user>see  and ".len();
    assert_eq!(rendered.media, [(rendered.exact_bytes, MediaId::of("a")), (behind, MediaId::of("b"))]);
}

#[test]
fn string_templates_have_media_in_front_of_the_text() {
    let rendered = render(STRINGS, PICTURES).expect("rendered");
    assert_eq!(rendered.text, "<system>S\n<user>\n\nsee \n and \n<assistant>");
    let start = "<system>S\n<user>".len();
    assert_eq!(rendered.exact_bytes, start);
    assert_eq!(rendered.media, [(start, MediaId::of("a")), (start + 1, MediaId::of("b"))]);
}

#[test]
fn later_turns_do_not_change_what_came_before_them() {
    let first = render(PARTS, PICTURES).expect("rendered");
    let longer = PICTURES.replace("\"S\"}", "\"S\"}, {\"role\": \"user\", \"content\": \"early\"}");
    let longer = render(PARTS, &longer.replace("]}]}", "]}, {\"role\": \"assistant\", \"content\": \"ok\"}]}"))
        .expect("rendered");
    assert!(longer.text.ends_with("<user>see  and |<assistant>ok|"));
    assert_eq!(longer.media.len(), first.media.len());
}

#[test]
fn text_with_the_marks_in_it_survives() {
    let body = PICTURES.replace("see ", "\u{f8f0}7\u{f8f1} \u{f8f0}");
    let rendered = render(PARTS, &body).expect("rendered");
    assert!(rendered.text.contains("\u{f8f0}7\u{f8f1} \u{f8f0}"), "{}", rendered.text);
    assert_eq!(rendered.media.len(), 2);
}

#[test]
fn dates_are_the_engine_hosts() {
    let template = "{{ strftime_now('%Y-%m-%d %H:%M') }}{{ messages[0].content }}";
    let body = r#"{"messages": [{"role": "user", "content": "!"}]}"#;
    let mut config = TemplateConfig { template: template.to_owned(), ..TemplateConfig::default() };
    for (minutes, expected) in [(0, "2026-11-30 16:05!"), (480, "2026-12-01 00:05!"), (-1000, "2026-11-29 23:25!")] {
        config.utc_offset_minutes = minutes;
        let renderer = Renderer::compile(config.clone()).expect("template");
        assert_eq!(renderer.render(&chat(body), NOW).expect("rendered").text, expected);
    }
}

#[test]
fn requests_bring_their_own_template_only_when_allowed() {
    let body = r#"{"messages": [{"role": "user", "content": "hi"}], "chat_template": "{{ messages[0].content }}?"}"#;
    assert_eq!(render(STRINGS, body), Err(RenderError::RequestTemplate));
    let config =
        TemplateConfig { template: STRINGS.to_owned(), allow_request_template: true, ..TemplateConfig::default() };
    let renderer = Renderer::compile(config).expect("template");
    assert_eq!(renderer.render(&chat(body), NOW).expect("rendered").text, "hi?");
}

#[test]
fn server_defaults_are_under_what_the_request_says() {
    let config = TemplateConfig {
        template: "{{ a }} {{ b }} {{ c }}".to_owned(),
        default_kwargs: r#"{"a": 1, "b": 2, "c": 3}"#.to_owned(),
        ..TemplateConfig::default()
    };
    let renderer = Renderer::compile(config.clone()).expect("template");
    let body = r#"{"messages": [{"role": "user", "content": ""}], "chat_template_kwargs": {"b": "x", "c": null}}"#;
    assert_eq!(renderer.render(&chat(body), NOW).expect("rendered").text, "1 x 3");
    let broken = TemplateConfig { default_kwargs: "[]".to_owned(), ..config };
    assert!(matches!(Renderer::compile(broken), Err(TemplateError::File { .. })));
}

#[test]
fn what_a_template_says_when_it_refuses_is_told() {
    let body = r#"{"messages": [{"role": "user", "content": ""}]}"#;
    let error = render("\n{{ raise_exception('only tools') }}", body).expect_err("refused");
    assert_eq!(error.to_string(), "chat template: only tools (line 2)");
}

fn load(template: &str) -> Result<TemplateConfig, TemplateError> {
    let files = ModelFiles { chat_template: Some(template.as_bytes()), ..ModelFiles::default() };
    files.load(RequestedFormat::Auto)
}

#[test]
fn what_is_not_supported_is_named_when_a_model_is_loaded() {
    for (template, what) in [
        ("{{ x | truncate(5) }}", "filter `truncate`"),
        ("{{ x | e }}", "filter `e`"),
        ("{{ cycler('a') }}", "function `cycler`"),
        ("{{ x.encode() }}", "method `encode`"),
        ("{{ x.isdigit() }}", "method `isdigit`"),
        ("{% if x is upper %}{% endif %}", "test `upper`"),
        ("{{ x.find('a', 3) }}", "positions in `find`"),
        ("{{ '{:>3}'.format(x) }}", "format specifications"),
        ("{{ '%s' % x }}", "`%` on a string"),
        ("{{ 'a' + (x | safe) }}", "`safe` text in an addition"),
        ("{% set y = x | tojson | safe %}{{ 'a' + y }}", "`safe` text in an addition"),
        ("{% macro f() %}{{ varargs }}{% endmacro %}", "`varargs`"),
    ] {
        match load(template) {
            Err(TemplateError::Unsupported { what: found, .. }) => assert!(found.contains(what), "{found}"),
            other => panic!("{template}: {other:?}"),
        }
    }
    assert!(load("{{ x | tojson | safe }}{{ '<' ~ (x | safe) ~ '>' }}").is_ok());
    for broken in ["{% if %}", "{% include 'other' %}", "{% block x %}{% endblock %}"] {
        assert!(matches!(load(broken), Err(TemplateError::Syntax(_))), "{broken}");
    }
    assert_eq!(ModelFiles::default().load(RequestedFormat::Auto), Err(TemplateError::Missing));
}

#[test]
fn model_files_are_found_in_the_order_transformers_looks() {
    let config = br#"{"chat_template": [{"name": "default", "template": "D{% for c in messages %}{% for p in c.content %}{% endfor %}{% endfor %}"},
        {"name": "tool_use", "template": "T"}], "bos_token": {"content": "<s>"}, "eos_token": "</s>", "unk_token": null, "add_bos_token": true}"#;
    let mut files = ModelFiles { tokenizer_config: Some(config), ..ModelFiles::default() };
    let loaded = files.load(RequestedFormat::Auto).expect("config");
    assert_eq!(loaded.tool_template.as_deref(), Some("T"));
    assert_eq!((loaded.content_format, loaded.tool_content_format), (ContentFormat::Parts, ContentFormat::String));
    let tokens = [("bos_token".to_owned(), "<s>".to_owned()), ("eos_token".to_owned(), "</s>".to_owned())];
    assert_eq!(loaded.special_tokens, tokens);
    files.chat_template = Some(b"J\r\n");
    assert_eq!(files.load(RequestedFormat::Auto).expect("config").template, "J\n");
    let fixed = files.load(RequestedFormat::Fixed(ContentFormat::Parts)).expect("config");
    assert_eq!(fixed.content_format, ContentFormat::Parts);
    files.tool_template = Some(b"U");
    files.chat_template = None;
    let alone = files.load(RequestedFormat::Auto);
    assert_eq!(alone, Err(TemplateError::Missing), "files of their own hide all of the configuration");
    for config in
        [&br#"{"model_type": "gpt_oss"}"#[..], br#"{"model_type": "x", "architectures": ["InklingForCausalLM"]}"#]
    {
        files.config = Some(config);
        assert!(matches!(files.load(RequestedFormat::Auto), Err(TemplateError::OtherRenderer { .. })));
    }
}

/// vLLM takes the processor's template for requests without tools, and the tokenizer's for those with tools.
#[test]
fn the_template_of_a_processor_is_for_requests_without_tools() {
    let load = |files: ModelFiles<'_>| {
        let loaded = files.load(RequestedFormat::Auto).expect("templates");
        (loaded.template, loaded.tool_template)
    };
    let processor = ModelFiles { chat_template_json: Some(br#"{"chat_template": "P"}"#), ..ModelFiles::default() };
    let (template, tools) = load(processor);
    assert_eq!(template, "P");
    assert!(tools.expect("a template").contains("raise_exception"), "the tokenizer does not know that file");
    let own = ModelFiles { tokenizer_config: Some(br#"{"chat_template": "T"}"#), ..processor };
    assert_eq!(load(own), ("P".to_owned(), Some("T".to_owned())));
    let jinja = ModelFiles { chat_template: Some(b"J"), ..own };
    assert_eq!(load(jinja), ("P".to_owned(), Some("J".to_owned())));
    let tool_use = ModelFiles { tool_template: Some(b"U"), ..jinja };
    assert_eq!(load(tool_use), ("P".to_owned(), Some("U".to_owned())));
    assert_eq!(load(ModelFiles { chat_template: Some(b"P"), ..own }), ("P".to_owned(), None));
}

/// What Python 3.11 says of texts with letters of many cases.
#[test]
fn cases_of_letters_are_pythons() {
    let of = |text: &str| {
        let template =
            "{{ x.capitalize() }}|{{ x.title() }}|{{ x.swapcase() }}|{{ x.upper() }}|{{ x.lower() }}".to_owned();
        let renderer = Renderer::compile(TemplateConfig { template, ..TemplateConfig::default() }).expect("compiles");
        let input = TemplateInput { variables: vec![("x".into(), text.into())], ..TemplateInput::default() };
        renderer.apply(&input, NOW).expect("rendered")
    };
    for (text, expected) in [
        ("ΑΣ", "Ας|Ας|ας|ΑΣ|ας"),
        ("ΣΑΣ ΑΣ.", "Σας ας.|Σας Ας.|σας ας.|ΣΑΣ ΑΣ.|σας ας."),
        ("ǅa ǆB", "ǅa ǆb|ǅa ǅb|ǅA Ǆb|ǄA ǄB|ǆa ǆb"),
        ("İSTANBUL ıI", "İstanbul ıi|İstanbul Ii|i̇stanbul Ii|İSTANBUL II|i̇stanbul ıi"),
        ("ß ﬁx", "Ss ﬁx|Ss Fix|SS FIX|SS FIX|ß ﬁx"),
        ("ᾳᾷ ŉა", "ᾼᾷ ŉა|ᾼᾷ ʼNა|ΑΙΑ͂Ι ʼNᲐ|ΑΙΑ͂Ι ʼNᲐ|ᾳᾷ ŉა"),
        ("a'b ΣΑ", "A'b σα|A'B Σα|A'B σα|A'B ΣΑ|a'b σα"),
        ("ǆΣ", "ǅς|ǅς|Ǆς|ǄΣ|ǆς"),
    ] {
        assert_eq!(of(text), expected, "{text}");
    }
}

#[test]
fn a_requests_own_template_is_checked_as_at_load() {
    let config =
        TemplateConfig { template: "own".to_owned(), allow_request_template: true, ..TemplateConfig::default() };
    let renderer = Renderer::compile(config).expect("compiles");
    let with = |template: &str| {
        let body =
            serde_json::json!({"messages": [{"role": "user", "content": "x"}], "chat_template": template}).to_string();
        renderer.render(&chat(&body), NOW).map(|rendered| rendered.text).map_err(|error| error.to_string())
    };
    assert_eq!(with("<{{ messages[0].content }}>"), Ok("<x>".to_owned()));
    assert!(with("{{ messages[0].content.isdigit() }}").expect_err("refused").contains("method `isdigit`"));
}

/// The small stack of a WebAssembly VM must hold the deepest rendering.
#[test]
fn nested_schemas_end_with_an_error_and_not_with_the_stack() {
    let template = "{% macro walk(x) %}{% if x is mapping %}{% for k, v in x.items() %}{{ walk(v) }}{% endfor %}{% else %}{{ x }}{% endif %}{% endmacro %}{{ walk(tools[0].function.parameters) }}";
    let nested = |depth: usize| {
        let schema = "{\"a\":".repeat(depth) + "1" + &"}".repeat(depth);
        format!(
            r#"{{"messages": [{{"role": "user", "content": "x"}}], "tools": [{{"type": "function", "function": {{"name": "f", "parameters": {schema}}}}}]}}"#
        )
    };
    let small = std::thread::Builder::new().stack_size(512 * 1024);
    let rendering = small.spawn(move || (text(template, &nested(20)), render(template, &nested(110)).map(|_| ())));
    let (shallow, deep) = rendering.expect("thread").join().expect("no overflow");
    assert_eq!(shallow, "1");
    assert!(matches!(deep, Err(RenderError::Template(_))), "{deep:?}");
}
