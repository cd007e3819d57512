//! Where Kimi's tokenizer class cuts a text before it tokenizes.

use super::template::python_space;

/// Most characters it tokenizes at once.
const MOST: usize = 400_000;
/// Most of them in a row that are all white space, or none.
const RUN: usize = 25_000;

/// Byte offset of the first cut in a text; special tokens in it only make cuts come later. Nothing before a cut depends on it.
pub fn first_cut(text: &str) -> Option<usize> {
    if text.len() <= RUN {
        return None;
    }
    let (mut run, mut in_space) = (0, None);
    for (count, (at, char)) in text.char_indices().enumerate() {
        let space = Some(python_space(char));
        run = if space == in_space { run + 1 } else { 1 };
        in_space = space;
        if run > RUN || count == MOST {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::first_cut;

    #[test]
    fn the_first_cut_is_where_a_run_is_too_long() {
        let (a, space) = ("é".repeat(25_000), " ".repeat(25_000));
        assert_eq!(first_cut(&a), None);
        assert_eq!(first_cut(&format!("{a}{space}{a}")), None);
        assert_eq!(first_cut(&format!("{a}é{space}")), Some(50_000));
        assert_eq!(first_cut(&format!("x {space}x")), Some(25_001));
        let words = "ab ".repeat(133_334);
        assert_eq!(first_cut(&words), Some(400_000));
        assert_eq!(first_cut(&words[..399_999]), None);
    }
}
