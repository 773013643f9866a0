//! Kubernetes resource quantities: `100m`, `64Mi`, `1.5`, `1e3`.

/// True if a string is a non-negative quantity.
pub(super) fn is_quantity(text: &str) -> bool {
    let text = text.strip_prefix('+').unwrap_or(text);
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = text.split_at(digits(text));
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    let some = !(whole.is_empty() && fraction.is_empty());
    let exponent = |text: &str| {
        let text = text.strip_prefix(['+', '-']).unwrap_or(text);
        (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let known = match suffix {
        "" | "n" | "u" | "m" | "k" | "M" | "G" | "T" | "P" | "E" => true,
        "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei" => true,
        suffix => suffix.strip_prefix(['e', 'E']).is_some_and(exponent),
    };
    some && known && text.len() <= 32
}

#[cfg(test)]
mod tests {
    use super::is_quantity;

    #[test]
    fn quantities_are_numbers_with_a_known_suffix() {
        for text in ["0", "100m", "64Mi", "1.5", ".5", "1.", "1e3", "12E-2", "2Gi", "+3k", "1E"] {
            assert!(is_quantity(text), "{text}");
        }
        for text in ["", ".", "m", "-1", "64MB", "64mi", "1 Gi", "1e", "1e100", "٣", "0x1", "1.2.3"]
        {
            assert!(!is_quantity(text), "{text}");
        }
    }
}
