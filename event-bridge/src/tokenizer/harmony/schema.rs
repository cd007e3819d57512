//! Functions as TypeScript types, the way oss-harmony writes JSON schemas.

use serde_json::Value;

/// One function a model may call.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) parameters: Option<Value>,
}

/// The section of a developer message that lists them.
pub(super) fn section(functions: &[Function]) -> String {
    let mut out = String::from("# Tools\n\n## functions\n\nnamespace functions {\n\n");
    for Function { name, description, parameters } in functions {
        for line in description.lines() {
            out.push_str(&format!("// {line}\n"));
        }
        match parameters {
            Some(schema) => out.push_str(&format!("type {name} = (_: {}) => any;\n\n", written(schema, ""))),
            None => out.push_str(&format!("type {name} = () => any;\n\n")),
        }
    }
    out.push_str("} // namespace functions");
    out
}

/// The type a schema stands for; lines after the first begin with `indent`.
fn written(schema: &Value, indent: &str) -> String {
    if let Some(variants) = schema.get("oneOf").and_then(Value::as_array) {
        return one_of(variants, indent);
    }
    match schema.get("type") {
        Some(Value::Array(types)) => {
            let named: Vec<&str> = types.iter().filter_map(Value::as_str).map(plain).collect();
            if named.is_empty() { "any".to_owned() } else { named.join(" | ") }
        }
        Some(Value::String(kind)) => match kind.as_str() {
            "object" => object(schema, indent),
            "array" => match schema.get("items") {
                Some(items) => format!("{}[]", written(items, indent)),
                None => "Array<any>".to_owned(),
            },
            "string" => strings(schema),
            "number" | "integer" | "boolean" => plain(kind).to_owned(),
            _ => "any".to_owned(),
        },
        _ => "any".to_owned(),
    }
}

fn plain(kind: &str) -> &str {
    if kind == "integer" { "number" } else { kind }
}

fn strings(schema: &Value) -> String {
    let values = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
    let quoted: Vec<String> = values.filter_map(Value::as_str).map(|text| format!("\"{text}\"")).collect();
    if quoted.is_empty() { "string".to_owned() } else { quoted.join(" | ") }
}

fn one_of(variants: &[Value], indent: &str) -> String {
    let mut out = String::new();
    for variant in variants {
        out.push_str(&format!("\n{indent} | {}", nullable(variant, &format!("{indent}   "))));
        let default = variant.get("default").map(|default| match default.as_str() {
            Some(text) if !is_enum(variant) => format!("default: \"{text}\""),
            _ => format!("default: {default}"),
        });
        comment_behind(&mut out, text(variant, "description"), default);
    }
    out
}

/// The type, with `null` where the schema says so and the type does not.
fn nullable(schema: &Value, indent: &str) -> String {
    let written = written(schema, indent);
    let may_be_null = schema.get("nullable").and_then(Value::as_bool).unwrap_or(false);
    if may_be_null && !written.contains("null") { format!("{written} | null") } else { written }
}

fn comment_behind(out: &mut String, description: Option<&str>, default: Option<String>) {
    let comments: Vec<String> = description.map(str::to_owned).into_iter().chain(default).collect();
    if !comments.is_empty() {
        out.push_str(&format!(" // {}", comments.join(" ")));
    }
}

fn text<'a>(schema: &'a Value, name: &str) -> Option<&'a str> {
    schema.get(name).and_then(Value::as_str)
}

fn is_enum(schema: &Value) -> bool {
    schema.get("enum").and_then(Value::as_array).is_some_and(|values| !values.is_empty())
}

/// `default` of a property: strings in quotes, unless they are one of an enumeration.
fn default(schema: &Value) -> Option<String> {
    schema.get("default").map(|default| match default.as_str() {
        Some(text) if is_enum(schema) => format!("default: {text}"),
        Some(text) => format!("default: \"{text}\""),
        None => format!("default: {default}"),
    })
}

fn object(schema: &Value, indent: &str) -> String {
    let mut out = String::new();
    if let Some(description) = text(schema, "description") {
        out.push_str(&format!("{indent}// {description}\n"));
    }
    out.push_str("{\n");
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let mark = if required.contains(&name.as_str()) { "" } else { "?" };
        comments_above(&mut out, property, indent);
        match property.get("oneOf").and_then(Value::as_array) {
            Some(variants) => choice(&mut out, &format!("{name}{mark}"), property, variants, indent),
            None => {
                let written = nullable(property, &format!("{indent}    "));
                out.push_str(&format!("{indent}{name}{mark}: {written},"));
                // A `oneOf` that is no list still keeps its default to itself.
                let shown = default(property).filter(|_| property.get("oneOf").is_none());
                comment_behind(&mut out, None, shown);
                out.push('\n');
            }
        }
    }
    out.push_str(&format!("{indent}}}"));
    out
}

/// Title, description and examples of a property; the description of one with `oneOf` has rules of its own.
fn comments_above(out: &mut String, property: &Value, indent: &str) {
    if let Some(title) = text(property, "title") {
        out.push_str(&format!("{indent}// {title}\n{indent}//\n"));
    }
    if let (None, Some(description)) = (property.get("oneOf"), text(property, "description")) {
        out.push_str(&format!("{indent}// {description}\n"));
    }
    if let Some(examples) = property.get("examples").and_then(Value::as_array).filter(|all| !all.is_empty()) {
        out.push_str(&format!("{indent}// Examples:\n"));
        for example in examples.iter().filter_map(Value::as_str) {
            out.push_str(&format!("{indent}// - \"{example}\"\n"));
        }
    }
}

/// A property with `oneOf`: its description stands above, unless the first variant says the same.
fn choice(out: &mut String, name: &str, property: &Value, variants: &[Value], indent: &str) {
    let description = text(property, "description");
    let same = variants.first().and_then(|first| text(first, "description")) == description;
    let above = description.filter(|_| !same);
    if let Some(description) = above {
        out.push_str(&format!("{indent}// {description}\n"));
    }
    if let Some(default) = default(property) {
        out.push_str(&format!("{indent}// {default}\n"));
    }
    out.push_str(&format!("{indent}{name}:\n"));
    for (at, variant) in variants.iter().enumerate() {
        out.push_str(&format!("{indent} | {}", nullable(variant, &format!("{indent}   "))));
        let own = text(variant, "description").filter(|own| Some(*own) != description);
        comment_behind(out, own.filter(|_| at > 0 || above.is_none()), default(variant));
        out.push('\n');
    }
    out.push_str(&format!("{indent},\n"));
}
