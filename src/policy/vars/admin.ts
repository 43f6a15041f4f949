/** The variables of the admin API: `ADMIN_PATH`, `ADMIN_HOST`, `ADMIN_TOKENS`, `ACCESS_TEAM`, `ACCESS_AUDIENCE`, `REVEAL`. */
import { readPath } from "./check-path.ts";
import type { KnownVariables } from "./known-variables.ts";
import { normalizedHost } from "../match.ts";
import { readTexts } from "./texts.ts";
import { type AdminToken, readAdminTokens, tokenTexts } from "./tokens.ts";
import { isSet, type ReportProblem } from "./variables.ts";

export interface AdminSettings {
  /** The admin API answers requests below this path; they are not forwarded. */
  readonly path: string;
  /** The host on which nothing is proxied and Cloudflare Access is accepted; null when it is not set. */
  readonly host: string | null;
  readonly tokens: readonly AdminToken[];
  /** Null when Cloudflare Access is not configured. */
  readonly access: AccessSettings | null;
  /** Whether isolates seal the plain keys of their top lists, so that callers with the right `reveal` can read them. */
  readonly reveal: boolean;
}

/** Cloudflare Access, whose JWTs identify operators. */
export interface AccessSettings {
  /** The host of the team, which issues the JWTs: `<team>.cloudflareaccess.com`. */
  readonly teamHost: string;
  /** The accepted `aud`: the AUD tags of Access applications. */
  readonly audiences: readonly string[];
}

/** Null without credentials. */
export function readAdmin(env: KnownVariables, checkPath: string, report: ReportProblem): AdminSettings | null {
  const hasCredentials = isSet(env.ADMIN_TOKENS) || isSet(env.ACCESS_TEAM);
  const settings = {
    path: readPath("ADMIN_PATH", env.ADMIN_PATH, "/_headgate", report),
    host: readHost(env, report),
    tokens: readAdminTokens(env.ADMIN_TOKENS, report),
    access: readAccess(env, report),
    reveal: readReveal(env.REVEAL, report),
  };
  if (hasCredentials || isSet(env.ADMIN_PATH)) reportOverlap(settings.path, checkPath, report);
  return hasCredentials ? settings : null;
}

/** A line if a token is in `ADMIN_TOKENS` and in `CHECK_TOKENS`. */
export function adminWarnings({ ADMIN_TOKENS, CHECK_TOKENS }: KnownVariables): string[] {
  const ofCheck = new Set(tokenTexts(CHECK_TOKENS));
  const isShared = tokenTexts(ADMIN_TOKENS).some((token) => ofCheck.has(token));
  return isShared
    ? ["ADMIN_TOKENS: one of its tokens is also in CHECK_TOKENS, so callers of /check can use the admin API"]
    : [];
}

/** Neither path may be below the other. */
function reportOverlap(value: string, checkPath: string, report: ReportProblem): void {
  const [longer, shorter] = value.length > checkPath.length ? [value, checkPath] : [checkPath, value];
  if (longer !== shorter && !longer.startsWith(`${shorter}/`)) return;
  const accepted = `a path that is not at, above or below CHECK_PATH, which is "${checkPath}"`;
  report({ variable: "ADMIN_PATH", field: "", value, accepted });
}

function readHost(env: KnownVariables, report: ReportProblem): string | null {
  const { ADMIN_HOST: value } = env;
  if (!isSet(value)) {
    if (isSet(env.ACCESS_TEAM)) reportHost(undefined, ", because ACCESS_TEAM is set", report);
    return null;
  }
  const isHost = typeof value === "string" && /^[a-z0-9-]+(?:\.[a-z0-9-]+)*\.?$/i.test(value);
  const host = isHost ? normalizedHost(value) : "";
  // The URL parser rewrites numbers as addresses, so that no request would have this host.
  if (isHost && URL.canParse(`http://${host}`) && new URL(`http://${host}`).hostname === host) {
    return host;
  }
  reportHost(value, ", without a scheme, port or path", report);
  return null;
}

function reportHost(value: unknown, reason: string, report: ReportProblem): void {
  const accepted = `a host such as "admin.example.com" on which nothing is proxied${reason}`;
  report({ variable: "ADMIN_HOST", field: "", value, accepted });
}

const accessDomain = "cloudflareaccess.com";

function readAccess(env: KnownVariables, report: ReportProblem): AccessSettings | null {
  const { ACCESS_TEAM: team } = env;
  const audiences = readTexts(
    "ACCESS_AUDIENCE",
    env,
    "the AUD tag of an Access application, or a list of such tags",
    report,
  );
  if (!isSet(team)) {
    if (audiences !== null) {
      reportTeam(undefined, ", because ACCESS_AUDIENCE is set", report);
    }
    return null;
  }
  if (!isSet(env.ACCESS_AUDIENCE)) {
    const accepted = "the AUD tag of the Access application, because ACCESS_TEAM is set";
    report({ variable: "ACCESS_AUDIENCE", field: "", value: undefined, accepted });
  }
  const name = /^([a-z0-9](?:[a-z0-9-]*[a-z0-9])?)(?:\.cloudflareaccess\.com)?$/i.exec(
    typeof team === "string" ? team : "",
  )?.[1];
  if (name === undefined) reportTeam(team, "", report);
  if (name === undefined || audiences === null) return null;
  return { teamHost: `${name.toLowerCase()}.${accessDomain}`, audiences };
}

function reportTeam(value: unknown, reason: string, report: ReportProblem): void {
  const accepted = `the name of a Zero Trust team such as "acme" or "acme.${accessDomain}"${reason}`;
  report({ variable: "ACCESS_TEAM", field: "", value, accepted });
}

function readReveal(value: unknown, report: ReportProblem): boolean {
  if (!isSet(value) || value === "off") return false;
  if (value === "admins") return true;
  report({ variable: "REVEAL", field: "", value, accepted: '"off" or "admins"' });
  return false;
}
