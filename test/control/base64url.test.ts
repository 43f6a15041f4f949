/** Base64url without padding, compared with that of Node. */
import { expect, it } from "vitest";
import { fromBase64Url, toBase64Url } from "../../src/control/base64url.ts";
import { randomFrom } from "../random.ts";

it("bytes of every length are written as Node writes them, and are read back", () => {
  const random = randomFrom(1);
  for (let length = 0; length <= 200; length++) {
    const bytes = Uint8Array.from({ length }, () => Math.floor(random() * 256));
    const text = Buffer.from(bytes).toString("base64url");
    expect(toBase64Url(bytes)).toBe(text);
    expect(fromBase64Url(text)).toEqual(bytes);
  }
});

it.for(["A", "AAAAA", "AB", "AAB", "AA==", "A A", "+AAA", "/AAA", "äAAA", "AAA\u{1f600}"])(
  "%j is not read, because no bytes are written like this",
  (text) => {
    expect(fromBase64Url(text)).toBe(null);
  },
);
