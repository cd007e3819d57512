//! The built-in corpus of the self-test: our own texts and conversations, chosen to touch every rule of the known tokenizers and templates.

mod conversations;
pub mod generate;

pub use conversations::{Conversation, conversations};

/// All texts.
pub fn texts() -> Vec<String> {
    let mut texts: Vec<String> = PLAIN.iter().map(|text| (*text).to_owned()).collect();
    texts.extend(white_space());
    texts.extend(signs_in_kana());
    texts.extend(long_words());
    texts.extend(special_tokens());
    texts.push(PLAIN.join("\n\n"));
    texts.push(PLAIN.concat());
    texts
}

/// The texts that are written out, in many languages.
pub(crate) fn plain() -> &'static [&'static str] {
    PLAIN
}

/// Texts about special tokens, a few long ones.
pub(crate) fn special_texts() -> Vec<String> {
    special_tokens().chunks(16).map(|texts| texts.join("\n")).collect()
}

const PLAIN: &[&str] = &[
    "",
    "The router counts how many blocks of a prompt a worker holds already.",
    "It's what we've said: they'll see, I'm sure, you're right, she'd know, don't. IT'S WE'VE THEY'LL I'M YOU'RE SHE'D DON'T",
    "a'b 'tis 'S 'ſ 'ſa it'ſ O'Neil rock'n'roll ''' 'x 'r 're 'll'l",
    "1 12 123 1234 12345 1,234,567.89 0x1F 1e-7 ½ ² Ⅷ ١٢٣ १२३ 3rd v2.0.1 2026-11-30T16:05:12Z",
    "camelCaseWord HTTPServer iPhone XMLHttpRequest snake_case SCREAMING_CASE kebab-case ǅungla Ǆ ǆ ʰʷ ªº",
    "fn main() {\n    let x: Vec<u8> = vec![0; 16];\n\tprintln!(\"{x:?}\"); // done\n}\r\n",
    "def f(a, *b, **c):\n    return [i ** 2 for i in a if i % 2 == 0] or {'k': None}\n",
    "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\\nb\"}],\"n\":1.5e3,\"ok\":true}",
    "<html><body class=\"a b\">&nbsp;&amp;</body></html> https://example.org/a/b?c=d&e=%20#f user@example.org",
    "路由器会记住每个工作节点已经缓存的前缀，这样新的请求就能更快得到答复。",
    "ルーターは各ワーカーが保持するブロックを数えます。カタカナとひらがな、漢字。ｶﾀｶﾅ ゛゜ー",
    "라우터는 작업자가 이미 가진 블록을 셉니다. 한글 자모: ㄱㅏ 각 각",
    "Маршрутизатор считает блоки. Ёлка ёжик й й",
    "Der Verteiler zählt Blöcke; größer, straße, ÄÖÜ. Le routeur compte les blocs déjà gardés: œuvre, naïve, à côté.",
    "Bộ định tuyến đếm các khối: ữ ự ệ ẫ — Bộ định tuyến",
    "يحسب الموجه الكتل المحفوظة. ١٢٣ لا",
    "הנתב סופר את הבלוקים. שָׁלוֹם",
    "राउटर ब्लॉक गिनता है। क़ क़ ड़",
    "เราเตอร์นับบล็อกที่เก็บไว้แล้ว กำ",
    "😀 👍🏽 👩‍👩‍👧‍👦 🇫🇷 ❤️ ☺ ♥ 1️⃣ 🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    "e\u{301} é a\u{323}\u{307} ạ̇ q\u{307}\u{323} \u{344} \u{374} \u{37e} \u{2126} \u{212b} \u{f900} \u{fb1d} \u{1d15e} \u{0958}",
    "\u{1100}\u{1161}\u{11a8} \u{ac00}\u{11a8} \u{ac01}\u{11a8} \u{1100}\u{1161}\u{11a7} \u{301}\u{301}a\u{301}\u{327}",
    "\u{0}\u{1}\u{7f}\u{80}\u{9f}\u{ad}\u{200b}\u{200d}\u{feff}\u{fffd}\u{fffe}\u{e000}\u{10ffff}x \u{1}\u{2}ab \u{3} 1\u{4}",
    "\u{378}\u{530} \u{1c89}\u{1c8a} \u{10d40} \u{16d40} \u{1e5d0} \u{2ffff} \u{31350}",
    "...---===***!!!??? ~~~ ^^^ ``` ''' \"\"\" (([[{{}}]])) //// \\\\ ||| a/b//c .\n/x ,\r\n//",
    "▁ ▁▁ a▁b ▁a Ġ Ċ ĉ <0x0A> <unk> <s> </s>",
    "x\u{300}\u{301} \u{300}x '\u{300}s A\u{300}B aB\u{300}c \u{300}\u{300} \u{20dd}a ा ก็",
    "、。「」『』【】，！？：；（）《》…—～·￥ a。b，c、d",
    "日本語ABC漢字abc仮名123かなカナ々〆〇ーヽヾ゛゜",
];

/// Signs, marks and unassigned characters of the kana blocks, which DeepSeek's pattern takes for letters at first, beside each of the others.
fn signs_in_kana() -> impl Iterator<Item = String> {
    let signs = ['・', '゛', '゜', '゠', '\u{3040}', '\u{3097}', '\u{3098}', '\u{3099}', '\u{309a}'];
    signs.into_iter().map(|sign| {
        let beside = ('\u{3040}'..='\u{30ff}').chain(['漢', '字', '一', '龥']);
        beside.map(|other| format!("{other}{sign}{sign}{other} {sign}{other}, {other}{sign}\n")).collect()
    })
}

fn white_space() -> Vec<String> {
    let spaces = [
        " ", "\t", "\n", "\r", "\r\n", "\u{b}", "\u{c}", "\u{85}", "\u{a0}", "\u{1680}", "\u{2003}", "\u{2028}",
        "\u{2029}", "\u{202f}", "\u{205f}", "\u{3000}", "\u{180e}", "\u{200b}",
    ];
    let mut texts = Vec::new();
    for space in spaces {
        for count in [1, 2, 3, 7, 33] {
            let run = space.repeat(count);
            texts.push(format!("a{run}b{run}1{run}.{run}\n{run}中{run}"));
            texts.push(format!("{run} x\n{run}\n y {run}"));
        }
    }
    texts
}

fn long_words() -> Vec<String> {
    ["a", "ab", "é", "中", "🙂", "\u{301}", " ", "\n", "=", "<", "9", "Ab", "aB1", "\u{1}", "ー", "'s", "한", "▁"]
        .iter()
        .flat_map(|unit| [unit.repeat(70), format!("x {} y", unit.repeat(700))])
        .collect()
}

fn special_tokens() -> Vec<String> {
    let tokens = [
        "<|im_start|>",
        "<|im_end|>",
        "<|endoftext|>",
        "<think>",
        "</think>",
        "<tool_call>",
        "</tool_call>",
        "<|begin_of_text|>",
        "<|start_header_id|>",
        "<|eot_id|>",
        "<｜begin▁of▁sentence｜>",
        "<｜User｜>",
        "<｜Assistant｜>",
        "<｜tool▁calls▁begin｜>",
        "<|start|>",
        "<|channel|>",
        "<|message|>",
        "<|return|>",
        "<bos>",
        "<start_of_turn>",
        "<end_of_turn>",
        "<unused7>",
        "[INST]",
        "[/INST]",
        "<s>",
        "</s>",
        "<unk>",
        "<|endofprompt|>",
        "<table>",
        "\t\t\t",
        "\n\n\n",
    ];
    let mut texts: Vec<String> = Vec::new();
    for token in tokens {
        texts.push(format!("{token}system\nYou help.{token}\n{token} user {token}{token}"));
        let broken: String = token.chars().take(token.chars().count().saturating_sub(1)).collect();
        texts.push(format!("a{broken}b {broken}{token}c  {token}  d e\u{301}{token}\u{301}"));
    }
    texts.push(tokens.concat());
    texts.push(tokens.join(" "));
    texts
}
