//! Fenced code blocks of Markdown, followed line by line (CommonMark 0.31, section 4.5), inside
//! quotes and list items as well.

/// White space as CommonMark means it: what looks like space otherwise is text.
const BLANK: [char; 2] = [' ', '\t'];
/// Columns before a fence; what stands further in is code that needs none.
const MOST_INDENT: usize = 3;

/// Which fenced block the next line stands in, if any.
#[derive(Debug, Clone, Default)]
pub struct Fences {
    open: Option<Open>,
    /// The lines before belong to a list, where a fence may stand further in.
    in_list: bool,
}

#[derive(Debug, Clone)]
struct Open {
    /// Quote marks before it.
    quote_depth: usize,
    /// Columns before it, list marks counted.
    indent: usize,
    mark: char,
    length: usize,
}

impl Fences {
    /// Reads the next line, which has no line break; whether it is part of a fenced block, the
    /// fences themselves included.
    pub fn read(&mut self, line: &str) -> bool {
        if let Some(open) = &self.open {
            let (depth, rest) = without_quote_marks(line, open.quote_depth);
            // A quote that ends takes its blocks with it.
            if depth == open.quote_depth {
                if open.is_closed_by(rest) {
                    self.open = None;
                }
                return true;
            }
        }
        let (quote_depth, content) = without_quote_marks(line, usize::MAX);
        let inside = content.trim_start_matches(BLANK);
        let fence = without_list_marks(inside);
        if fence.len() < inside.len() {
            self.in_list = true;
        } else if !content.is_empty() && !content.starts_with(BLANK) {
            self.in_list = false;
        }
        let is_code = indent(content, inside) > MOST_INDENT && !self.in_list;
        self.open = if is_code { None } else { Open::begun_by(fence, quote_depth, indent(content, fence)) };
        self.open.is_some()
    }

    /// The line that closes the open block.
    pub fn closing_line(&self) -> Option<String> {
        let open = self.open.as_ref()?;
        let fence = open.mark.to_string().repeat(open.length);
        Some(format!("{}{}{fence}", "> ".repeat(open.quote_depth), " ".repeat(open.indent)))
    }
}

impl Open {
    fn begun_by(fence: &str, quote_depth: usize, indent: usize) -> Option<Self> {
        let mark = fence.chars().next().filter(|mark| "`~".contains(*mark))?;
        let length = run_length(fence, mark);
        let is_fence = length >= 3 && !(mark == '`' && fence[length..].contains('`'));
        is_fence.then_some(Self { quote_depth, indent, mark, length })
    }

    fn is_closed_by(&self, content: &str) -> bool {
        let fence = content.trim_start_matches(BLANK);
        let length = run_length(fence, self.mark);
        // Of a list item we know only how far in its fence is.
        let most_indent = if self.indent <= MOST_INDENT { MOST_INDENT } else { self.indent + MOST_INDENT };
        let ends_there = fence[length..].trim_matches(BLANK).is_empty();
        length >= self.length && ends_there && indent(content, fence) <= most_indent
    }
}

/// Columns that `line` has before `rest`, its end.
fn indent(line: &str, rest: &str) -> usize {
    let before = &line[..line.len() - rest.len()];
    before.chars().fold(0, |column, character| if character == '\t' { column / 4 * 4 + 4 } else { column + 1 })
}

fn run_length(text: &str, mark: char) -> usize {
    text.bytes().take_while(|byte| char::from(*byte) == mark).count()
}

/// Takes at most `most` quote marks from the start of a line; how many there were.
fn without_quote_marks(line: &str, most: usize) -> (usize, &str) {
    let (mut depth, mut rest) = (0, line);
    while depth < most {
        let content = rest.trim_start_matches(' ');
        let Some(inside) = content.strip_prefix('>').filter(|_| rest.len() - content.len() <= MOST_INDENT) else {
            break;
        };
        rest = inside.strip_prefix(' ').unwrap_or(inside);
        depth += 1;
    }
    (depth, rest)
}

fn without_list_marks(content: &str) -> &str {
    let mut rest = content;
    loop {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let mark = match digits {
            0 => rest.strip_prefix(['-', '*', '+']),
            1..=9 => rest[digits..].strip_prefix(['.', ')']),
            _ => None,
        };
        match mark.filter(|inside| inside.starts_with(BLANK)) {
            Some(inside) => rest = inside.trim_start_matches(BLANK),
            None => return rest,
        }
    }
}
