//! Requests of the self-test's second half: conversations as clients send them, each of which asks something else of a template.

use serde_json::{Value, json};

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    /// What it is about.
    pub name: &'static str,
    /// Path it is sent to.
    pub path: &'static str,
    /// Its JSON.
    pub body: String,
}

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";
const RESPONSES: &str = "/v1/responses";

/// All of them.
pub fn conversations() -> Vec<Conversation> {
    let chats = WRITTEN.iter().map(|(name, body)| Conversation { name, path: CHAT, body: (*body).to_owned() });
    let others = OTHER_ENDPOINTS.iter();
    let others = others.map(|(name, path, body)| Conversation { name, path, body: (*body).to_owned() });
    chats.chain(others).chain(growing()).collect()
}

/// Each begins as the one before, and is long enough for every cache of prompts.
fn growing() -> impl Iterator<Item = Conversation> {
    let turns: Vec<Value> = (0..13)
        .map(|turn| {
            let from = turn * 7 % super::PLAIN.len();
            let texts = super::PLAIN.iter().cycle().skip(from).take(28);
            let text: String = texts.flat_map(|text| [*text, "\n\n"]).collect();
            let role = if turn % 2 == 0 { "user" } else { "assistant" };
            json!({ "role": role, "content": format!("{turn}. {text}") })
        })
        .collect();
    let lengths = [("a long conversation", 5), ("its next turns", 9), ("its last turns", 13)];
    lengths.into_iter().map(move |(name, length)| {
        let messages = turns.get(..length).unwrap_or_default();
        Conversation { name, path: CHAT, body: json!({ "messages": messages }).to_string() }
    })
}

const WRITTEN: &[(&str, &str)] = &[
    ("a user's message", r#"{"messages":[{"role":"user","content":"How many blocks does worker seven hold?"}]}"#),
    (
        "a system message",
        r#"{"messages":[{"role":"system","content":"You count blocks.\nBe brief."},{"role":"user","content":"Größe? 你好 👍🏽"}]}"#,
    ),
    (
        "several turns",
        r#"{"messages":[{"role":"system","content":"You count blocks."},{"role":"user","content":"One."},{"role":"assistant","content":"Two."},
        {"role":"user","content":"Three?"},{"role":"assistant","content":"Four!\n"},{"role":"user","content":"  five  "}]}"#,
    ),
    (
        "no head of an answer",
        r#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}],"add_generation_prompt":false}"#,
    ),
    (
        "an answer to be continued",
        r#"{"messages":[{"role":"user","content":"Count."},{"role":"assistant","content":"One, two, "}],
        "add_generation_prompt":false,"continue_final_message":true}"#,
    ),
    (
        "tools",
        r#"{"messages":[{"role":"user","content":"What is the weather in Köln?"}],"tools":[{"type":"function","function":{"name":"get_weather",
        "description":"Today's <b>weather</b> & \"wind\" of a city — größer","parameters":{"type":"object","properties":{"city":{"type":"string",
        "description":"例: 京都"},"days":{"type":"integer","default":1,"minimum":0,"maximum":1e1},"unit":{"type":"string","enum":["°C","°F"]},
        "where":{"type":"object","properties":{"lat":{"type":"number"},"tags":{"type":"array","items":{"type":"string"}}}},
        "any":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["city"],"additionalProperties":false},"strict":true}},
        {"type":"function","function":{"name":"now","description":"The time"}},{"type":"function","function":{"name":"bare"}}]}"#,
    ),
    (
        "tools beside a system message",
        r#"{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Time?"}],"tool_choice":"auto",
        "tools":[{"type":"function","function":{"name":"now","description":"The time","parameters":{"type":"object","properties":{}}}}]}"#,
    ),
    (
        "tools that are not to be called",
        r#"{"messages":[{"role":"user","content":"Time?"}],"tool_choice":"none",
        "tools":[{"type":"function","function":{"name":"now","description":"The time","parameters":{}}}]}"#,
    ),
    (
        "a tool call and its result",
        r#"{"messages":[{"role":"user","content":"Weather?"},{"role":"assistant","content":"I'll look.","tool_calls":[{"id":"abcdefghi","type":"function",
        "function":{"name":"get_weather","arguments":"{\"city\":\"K\u00f6ln\",\"days\":2,\"exact\":true,\"unit\":null,\"at\":[1.0,1e20,1e-7,-0.0,12345678901234567890]}"}}]},
        {"role":"tool","tool_call_id":"abcdefghi","content":"{\"degrees\": 21.50, \"sky\": \"<clear> & 'dry'\"}"}],
        "tools":[{"type":"function","function":{"name":"get_weather","description":"Weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}]}"#,
    ),
    (
        "parallel tool calls",
        r#"{"messages":[{"role":"user","content":"Both?"},{"role":"assistant","content":null,"tool_calls":[
        {"id":"call00001","type":"function","function":{"name":"f","arguments":"{}"}},
        {"id":"call00002","type":"function","function":{"name":"g","arguments":"{\"x\": {\"y\": [\"z\", false]}}"}}]},
        {"role":"tool","tool_call_id":"call00001","content":"first"},{"role":"tool","tool_call_id":"call00002","content":[{"type":"text","text":"second"}]},
        {"role":"assistant","content":"Done."},{"role":"user","content":"Thanks."}],
        "tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}},{"type":"function","function":{"name":"g","parameters":{"type":"object"}}}]}"#,
    ),
    (
        "a tool call with arguments that are no object",
        r#"{"messages":[{"role":"user","content":"Go."},{"role":"assistant","tool_calls":[{"id":"call00001","type":"function",
        "function":{"name":"f","arguments":"not json"}}]},{"role":"tool","tool_call_id":"call00001","content":""}]}"#,
    ),
    (
        "content in parts",
        r#"{"messages":[{"role":"system","content":[{"type":"text","text":"Be"},{"type":"text","text":"brief."}]},
        {"role":"user","content":[{"type":"text","text":" one "},{"type":"text","text":""},{"type":"text","text":"two\n"}]}]}"#,
    ),
    (
        "an image",
        r#"{"messages":[{"role":"user","content":[{"type":"text","text":"Look:"},{"type":"image_url","image_url":{"url":"https://example.org/a.png"}},
        {"type":"text","text":"What is it?"}]}]}"#,
    ),
    (
        "reasoning",
        r#"{"messages":[{"role":"user","content":"Why?"},{"role":"assistant","reasoning_content":"\nBecause of <blocks>.\n","content":"So."},
        {"role":"user","content":"And?"},{"role":"assistant","reasoning":"Once more.","content":"<think>\nhm\n</think>\n\nThus."},{"role":"user","content":"Good."}]}"#,
    ),
    (
        "reasoning before a tool call",
        r#"{"messages":[{"role":"user","content":"Time?"},{"role":"assistant","reasoning_content":"I need the tool.","content":"","tool_calls":[
        {"id":"call00001","type":"function","function":{"name":"now","arguments":"{}"}}]},{"role":"tool","tool_call_id":"call00001","content":"12:00"}]}"#,
    ),
    (
        "thinking switched off",
        r#"{"messages":[{"role":"user","content":"Quick."}],"chat_template_kwargs":{"enable_thinking":false,"thinking":false}}"#,
    ),
    (
        "thinking switched on",
        r#"{"messages":[{"role":"user","content":"Slow."}],"chat_template_kwargs":{"enable_thinking":true,"thinking":true}}"#,
    ),
    ("an effort", r#"{"messages":[{"role":"user","content":"Try."}],"reasoning_effort":"high"}"#),
    ("no effort", r#"{"messages":[{"role":"user","content":"Rest."}],"reasoning_effort":"none"}"#),
    (
        "a developer's message",
        r#"{"messages":[{"role":"developer","content":"Be brief."},{"role":"user","content":"Now."}]}"#,
    ),
    (
        "two system messages",
        r#"{"messages":[{"role":"system","content":"A."},{"role":"user","content":"B."},{"role":"system","content":"C."},{"role":"user","content":"D."}]}"#,
    ),
    (
        "two users in a row",
        r#"{"messages":[{"role":"user","content":"A."},{"role":"user","content":"B."},{"role":"assistant","content":"C."},{"role":"assistant","content":"D."}]}"#,
    ),
    (
        "an assistant first",
        r#"{"messages":[{"role":"assistant","content":"Welcome."},{"role":"user","content":"Hello."}]}"#,
    ),
    ("an unknown role", r#"{"messages":[{"role":"critic","content":"No."},{"role":"user","content":"Hello."}]}"#),
    (
        "documents",
        r#"{"messages":[{"role":"user","content":"Sum up."}],"documents":[{"title":"A","text":"One.","n":1},{"title":"B & C","text":"Two."}]}"#,
    ),
    (
        "names",
        r#"{"messages":[{"role":"user","name":"ann","content":"A."},{"role":"assistant","name":"bot","content":"B."},{"role":"user","name":"bob","content":"C."}]}"#,
    ),
    (
        "empty and blank contents",
        r#"{"messages":[{"role":"system","content":""},{"role":"user","content":" \n\t "},{"role":"assistant","content":""},{"role":"user","content":[]}]}"#,
    ),
    (
        "contents that are missing",
        r#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":null},{"role":"user"}]}"#,
    ),
    (
        "odd characters",
        r#"{"messages":[{"role":"user","content":"\u0000\u001c\u0085\u00a0\u2028\ufeff e\u0301 \ud83d\udc69\u200d\ud83d\udc67 \r\n\u3000x\u200b \\n {{ x }} {% y %} {# z #}"},
        {"role":"assistant","content":"ǆ ß İ ſ ½ ² ٣"},{"role":"user","content":"\u2029 ok \u001f"}]}"#,
    ),
    (
        "special tokens in text",
        r#"{"messages":[{"role":"user","content":"<|im_end|>\n<|im_start|>system\n<|eot_id|></s>[/INST]<end_of_turn><think>a</think>b<tool_call>{}</tool_call><｜User｜>"},
        {"role":"assistant","content":"<tool_response>x</tool_response> <|im_end|> </think> c"},{"role":"user","content":"<|endoftext|>"}]}"#,
    ),
    (
        "odd template variables",
        r#"{"messages":[{"role":"user","content":"Hi"}],"chat_template_kwargs":{"date_string":"26 Jul 2024","custom":[1.0,null,true,{"a":1e-7}],
        "thinking_budget":0,"tools_in_user_message":false,"builtin_tools":[]}}"#,
    ),
];

const OTHER_ENDPOINTS: &[(&str, &str, &str)] = &[
    (
        "Anthropic's system, tools and results",
        MESSAGES,
        r#"{"system":[{"type":"text","text":"Be brief."}],"max_tokens":9,"messages":[{"role":"user","content":"Weather?"},
        {"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"toolu_1","name":"get_weather","input":{"city":"Köln"}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"21 degrees"}]}],
        "tools":[{"name":"get_weather","description":"Weather","input_schema":{"type":"object","properties":{"city":{"type":"string"}}}}]}"#,
    ),
    (
        "Anthropic without thinking",
        MESSAGES,
        r#"{"max_tokens":9,"thinking":{"type":"disabled"},"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}]}"#,
    ),
    ("a response to a text", RESPONSES, r#"{"instructions":"Be brief.","input":"Hello."}"#),
    (
        "a response to items",
        RESPONSES,
        r#"{"input":[{"role":"user","content":[{"type":"input_text","text":"Weather?"}]},
        {"type":"function_call","call_id":"call00001","name":"get_weather","arguments":"{\"city\":\"K\"}"},
        {"type":"function_call_output","call_id":"call00001","output":"21"}]}"#,
    ),
];

#[cfg(test)]
mod tests {
    use kv_routing::openai::{Endpoint, Exactness, PromptInput, parse};

    use super::*;

    #[test]
    fn every_body_is_one_that_the_filter_reads() {
        let all = conversations();
        for Conversation { name, path, body } in &all {
            let endpoint = Endpoint::of_path(path).unwrap();
            let request = parse(endpoint, body.as_bytes()).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(matches!(request.prompt, PromptInput::Chat(_)), "{name}");
            assert!(!matches!(request.exactness, Exactness::Approximate(_)), "{name}: {:?}", request.exactness);
        }
        let names: std::collections::BTreeSet<_> = all.iter().map(|one| one.name).collect();
        assert_eq!(names.len(), all.len(), "reports name them");
        assert!(all.last().unwrap().body.len() > 20_000, "several leaps");
    }
}
