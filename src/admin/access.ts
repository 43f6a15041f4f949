/** Identifies operators by Cloudflare Access: https://developers.cloudflare.com/cloudflare-one/identity/authorization-cookie/validating-json/ */
import { errors, type JWTPayload, type JWTVerifyOptions } from "jose";
import type { AccessSettings } from "../policy/vars/admin.ts";
import { Cooldown } from "../limiter/isolate/object-caller.ts";
import { errorText, report } from "../observability/events.ts";
import { fetchedKeys, keyCooldownMs, verifiedPayload, withKeyErrors } from "../http/claims.ts";
import { CallRefused } from "./refusal.ts";

export const assertionField = "Cf-Access-Jwt-Assertion";

/** The e-mail of a person, or the name of a service token; null for an invalid JWT. */
export type AccessIdentity = (jwt: string) => Promise<string | null>;

/** The returned function throws a CallRefused while no keys are available. */
export function accessIdentity({ teamHost, audiences }: AccessSettings): AccessIdentity {
  const issuer = `https://${teamHost}`;
  const cooldown = new Cooldown(keyCooldownMs);
  const key = withKeyErrors(fetchedKeys(new URL(`${issuer}/cdn-cgi/access/certs`), cooldown));
  const options: JWTVerifyOptions = {
    algorithms: ["RS256"],
    issuer,
    audience: [...audiences],
    requiredClaims: ["exp"],
  };
  return async (jwt) => {
    try {
      return nameIn(await verifiedPayload(jwt, key, options));
    } catch (error) {
      if (error instanceof errors.JOSEError) return null;
      if (!cooldown.isOn) {
        cooldown.begin();
        report({ event: "access-keys-unavailable", error: errorText(error) });
      }
      throw new CallRefused({ kind: "access-unavailable" });
    }
  };
}

const longestName = 320;

/** Service tokens have a `common_name` instead of an e-mail. */
function nameIn({ email, common_name: serviceToken }: JWTPayload): string | null {
  const name = [email, serviceToken].find((each) => typeof each === "string" && each !== "");
  return typeof name === "string" && name.length <= longestName ? name : null;
}
