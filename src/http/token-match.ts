/** Compares bearer tokens in constant time. */

/** Returns the holder of a token; undefined when no holder has it. */
export type FindHolder<Holder> = (token: string) => Holder | undefined;

export function tokenMatcher<Holder extends { readonly token: string }>(
  holders: readonly Holder[],
): FindHolder<Holder> {
  const lengths = holders.map(({ token }) => utf8.encode(token).length);
  const sizeBytes = Math.max(0, ...lengths) + longestCharacterBytes;
  const paddedTokens = holders.map(({ token }) => padded(token, new Uint8Array(sizeBytes)));
  const given = new Uint8Array(sizeBytes);
  return (token) => holders[indexOf(paddedTokens, padded(token, given))];
}

/**
 * Compares with every token, and always the same number of bytes: the time reveals neither which token matched nor
 * how many characters did.
 */
function indexOf(paddedTokens: readonly Uint8Array[], given: Uint8Array): number {
  return paddedTokens.map((each) => crypto.subtle.timingSafeEqual(each, given)).indexOf(true);
}

/** `encodeInto` omits a character that does not fit completely. */
const longestCharacterBytes = 4;

const utf8 = new TextEncoder();

/**
 * Pads with zeros, and truncates longer texts. A padded token ends with at least four zero bytes, because the bytes
 * leave room for one more character. A truncated text ends with at most three, so it never equals a token.
 */
function padded(text: string, bytes: Uint8Array): Uint8Array {
  const { written } = utf8.encodeInto(text, bytes);
  return bytes.fill(0, written);
}
