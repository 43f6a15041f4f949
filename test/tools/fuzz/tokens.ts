/** Bearer tokens of users: valid tokens, and invalid tokens that must not count. */
import { type JWTPayload, SignJWT } from "jose";
import type { Draw } from "./draw.ts";
import { oddName, secretTag } from "./people.ts";

export const jwtSettings = {
  JWT_KEY: `${secretTag}-a secret of more than 32 bytes for HS256`,
  JWT_ISSUER: "https://id.example/",
  JWT_AUDIENCE: JSON.stringify(["api", "https://api.example/"]),
};

/** The subject of a token; null when the token is invalid. */
export interface Bearer {
  readonly key: string | null;
  readonly isPro: boolean;
  readonly lines: readonly string[];
}

const secret = new TextEncoder().encode(jwtSettings.JWT_KEY);
const foreign = new TextEncoder().encode(`${secretTag}-another secret of more than 32 bytes`);
const sound = { iss: jwtSettings.JWT_ISSUER, aud: "api" };

const signed = (payload: JWTPayload, key = secret, header: object = {}): Promise<string> =>
  new SignJWT(payload).setProtectedHeader({ alg: "HS256", ...header }).sign(key);

export async function bearer(draw: Draw): Promise<Bearer> {
  if (draw.chance(0.35)) return { key: null, isPro: false, lines: await invalidTokenLines(draw) };
  const isPro = draw.chance(0.2);
  const sub = draw.chance(0.1) ? 4_000 + draw.generation : oddName(draw);
  const plan = draw.one(["pro", ["free", "pro"]] as const);
  const claims = { ...sound, sub, ...(isPro && { plan }) };
  // jose requires a text as the subject when it signs a token, but accepts any value when it verifies a token.
  const token = await signed(claims as JWTPayload);
  const scheme = draw.one(["Bearer ", "bearer ", "BEARER   "]);
  return { key: String(sub), isPro, lines: [`Authorization: ${scheme}${token}`] };
}

async function invalidTokenLines(draw: Draw): Promise<string[]> {
  const sub = oddName(draw);
  const nowSeconds = Math.floor(Date.now() / 1000);
  const good = await signed({ ...sound, sub });
  const [head = "", body = "", signature = ""] = good.split(".");
  const base64 = (text: string): string => Buffer.from(text, "latin1").toString("base64url");
  const critical = base64('{"alg":"HS256","crit":["b64"],"b64":false}');
  const unsound: readonly (() => string | Promise<string>)[] = [
    () => signed({ ...sound, sub, exp: nowSeconds - 3_600 }),
    () => signed({ ...sound, sub, nbf: nowSeconds + 3_600 }),
    () => signed({ ...sound, sub, iss: "https://evil.example/" }),
    () => signed({ ...sound, sub, aud: ["other"] }),
    () => signed({ ...sound, sub }, foreign),
    () => signed({ ...sound }),
    () => signed({ ...sound, sub: "" }),
    () => signed({ ...sound, sub: [sub] as unknown as string }),
    () => signed({ ...sound, sub, exp: "soon" as unknown as number }),
    () => `${base64('{"alg":"none"}')}.${body}.`,
    () => `${head}.${body}.${signature.slice(1)}`,
    () => `${head}.${body}`,
    () => `${head}..${signature}`,
    () => `${good}.${signature}`,
    () => `${good},${good}`,
    () => `${secretTag}${draw.hex(draw.below(3_000))}`,
    () => "....",
    () => `${critical}.${body}.${signature}`,
    () => `${base64(draw.bytes(40))}.${body}.${signature}`,
  ];
  const token = await unsound[draw.below(unsound.length)]?.();
  const misplaced: readonly (readonly string[])[] = [
    [`Authorization: Basic ${good}`],
    ["Authorization: Bearer"],
    [`Authorization: ${good}`],
    [`Authorization: Bearer ${good}`, `Authorization: Bearer ${good}`],
    [`Proxy-Authorization: Bearer ${good}`],
    [],
  ];
  return draw.chance(0.7) ? [`Authorization: Bearer ${token}`] : [...draw.one(misplaced)];
}
