use super::*;

fn one(bytes: &[u8]) -> Result<Token<'_>, MsgpackError> {
    Reader::new(bytes).token()
}

#[test]
fn every_form_of_integer() {
    for (bytes, number) in [
        (&[0x7f_u8][..], 127_u64),
        (&[0xcc, 0x01], 1),
        (&[0xcd, 0x00, 0x02], 2),
        (&[0xce, 0, 0, 0, 3], 3),
        (&[0xcf, 0, 0, 0, 0, 0, 0, 0, 4], 4),
        (&[0xd0, 5], 5),
        (&[0xd1, 0, 6], 6),
        (&[0xd2, 0, 0, 0, 7], 7),
        (&[0xd3, 0, 0, 0, 0, 0, 0, 0, 8], 8),
        (&[0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], u64::MAX),
    ] {
        assert_eq!(one(bytes), Ok(Token::Unsigned(number)), "{bytes:x?}");
    }
    assert_eq!(one(&[0xe0]), Ok(Token::Negative(-32)));
    assert_eq!(one(&[0xd0, 0xff]), Ok(Token::Negative(-1)));
    assert_eq!(one(&[0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0]), Ok(Token::Negative(i64::MIN)));
}

#[test]
fn strings_binaries_floats_and_extensions() {
    assert_eq!(one(&[0xa2, b'h', b'i']), Ok(Token::Text(b"hi")));
    assert_eq!(one(&[0xd9, 1, b'x']), Ok(Token::Text(b"x")));
    assert_eq!(one(&[0xda, 0, 1, b'x']), Ok(Token::Text(b"x")));
    assert_eq!(one(&[0xdb, 0, 0, 0, 1, b'x']), Ok(Token::Text(b"x")));
    assert_eq!(one(&[0xc4, 1, 9]), Ok(Token::Binary(&[9])));
    assert_eq!(one(&[0xc5, 0, 1, 9]), Ok(Token::Binary(&[9])));
    assert_eq!(one(&[0xc6, 0, 0, 0, 1, 9]), Ok(Token::Binary(&[9])));
    assert_eq!(one(&[0xca, 0x3f, 0x80, 0, 0]), Ok(Token::Float(1.0)));
    assert_eq!(one(&[0xcb, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0]), Ok(Token::Float(1.0)));
    assert_eq!(one(&[0xd5, 1, 7, 8]), Ok(Token::Extension(&[7, 8])));
    assert_eq!(one(&[0xc7, 2, 1, 7, 8]), Ok(Token::Extension(&[7, 8])));
    assert_eq!(one(&[0xd8]).unwrap_err().fault, Fault::Truncated);
}

#[test]
fn lengths_that_lie_are_refused_before_anything_is_allocated() {
    assert_eq!(
        one(&[0xdd, 0xff, 0xff, 0xff, 0xff, 0]).unwrap_err().fault,
        Fault::Length { length: 0xffff_ffff, rest: 1 }
    );
    assert_eq!(one(&[0xdf, 0, 0, 0, 1, 0]).unwrap_err().fault, Fault::Length { length: 1, rest: 1 });
    assert_eq!(one(&[0xc6, 0xff, 0xff, 0xff, 0xff]).unwrap_err().fault, Fault::Length { length: 0xffff_ffff, rest: 0 });
    assert_eq!(one(&[0xc1]).unwrap_err().fault, Fault::Reserved);
    assert_eq!(one(&[]).unwrap_err(), MsgpackError { at: 0, fault: Fault::Truncated });
}

#[test]
fn an_error_leaves_the_reader_at_the_value() {
    let mut reader = Reader::new(&[0x01, 0xcd, 0x00]);
    reader.token().unwrap();
    assert_eq!(reader.token().unwrap_err(), MsgpackError { at: 1, fault: Fault::Truncated });
    assert_eq!(reader.offset(), 1);
}

#[test]
fn skip_takes_exactly_one_value_and_does_not_recurse() {
    let mut nested = vec![0x91; 1_000_000];
    nested.extend([0xc0, 0x05]);
    let mut reader = Reader::new(&nested);
    reader.skip().unwrap();
    assert_eq!(reader.token(), Ok(Token::Unsigned(5)));

    let mut reader = Reader::new(&[0x82, 0xa1, b'a', 0x92, 1, 2, 0xa1, b'b', 0xc0, 0x07]);
    reader.skip().unwrap();
    assert_eq!(reader.token(), Ok(Token::Unsigned(7)));
    assert!(Reader::new(&[0x92, 0x01]).skip().is_err());
}
