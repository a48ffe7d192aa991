//! Text of strangers made safe to show to a model: what a reader of the rendered page would not see
//! becomes visible, or goes (case C58).

use super::without_controls;

/// `text` with HTML comments and control characters made visible and invisible characters removed.
pub fn visible(text: &str) -> String {
    let shown = without_controls(&without_invisible(text)).into_owned();
    // After the removal, so that a mark cannot be hidden by splitting it with invisible characters.
    shown.replace("<!--", "[hidden comment: ").replace("-->", " :end of hidden comment]")
}

/// `text` without invisible characters.
pub(super) fn without_invisible(text: &str) -> String {
    text.chars().filter(|character| !is_invisible(*character)).collect()
}

/// Zero-width and direction characters, tags and variation selectors beyond the sixteen in common
/// use (Unicode 16, general category Cf and the blocks "Tags" and "Variation Selectors Supplement").
pub(super) fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{115F}'..='\u{1160}' | '\u{17B4}'..='\u{17B5}' | '\u{180B}'..='\u{180F}'
        | '\u{200B}'..='\u{200C}' | '\u{200E}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}'
        | '\u{3164}' | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E0FFF}')
}
