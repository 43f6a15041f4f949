/** The variables of the admin API and of alerts, which both need the control plane. */
import { readPath } from "./origin.ts";
import type { KnownVariables, VariableName } from "./known-variables.ts";
import { normalizedHost } from "../match.ts";
import { readTexts, isSet, type Variables } from "./variables.ts";
import { type AdminToken, readAdminTokens, tokenTexts } from "./secrets.ts";
import { type ReportProblem, hidden } from "../../validation/problems.ts";

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

export interface AlertSettings {
  /** Receives a POST for each alert. The address may itself be a secret. */
  readonly webhook: URL;
  /** Signs the requests; null when they are not signed. */
  readonly secret: Uint8Array<ArrayBuffer> | null;
  /** A policy raises an alert when its denials pass this share of its decisions, from 0 to 1. */
  readonly deniedShare: number;
  /** The policies whose keys raise an alert when they pass 80, 90 or 100 % of a limit. */
  readonly keys: ReadonlySet<string>;
}

const defaultShare = 0.2;
/** The bounds of Standard Webhooks. */
const leastSecretBytes = 24;
const mostSecretBytes = 64;

/**
 * Null without `ALERT_WEBHOOK`.
 * @param policies the names of all policies; null when they are not known, and `ALERT_KEYS` may name any
 */
export function readAlerts(
  env: KnownVariables,
  policies: readonly string[] | null,
  report: ReportProblem,
): AlertSettings | null {
  const webhook = readWebhook(env.ALERT_WEBHOOK, report);
  const secret = readSecret(env.ALERT_SECRET, report);
  const deniedShare = readShare(env.ALERT_DENIED_SHARE, report);
  const keys = readPolicyNames(env, policies, report);
  return webhook === null ? null : { webhook, secret, deniedShare, keys };
}

/** The settings of valid variables. The control plane object reads them; isolates report the problems of invalid ones. */
export function alertSettings(variables: Variables): AlertSettings | null {
  let isValid = true;
  const settings = readAlerts(variables, null, () => {
    isValid = false;
  });
  return isValid ? settings : null;
}

/** A line for each setting that has no effect. */
export function alertWarnings(env: KnownVariables, hasAdmin: boolean): string[] {
  if (isSet(env.ALERT_WEBHOOK)) {
    return hasAdmin
      ? []
      : ["ALERT_WEBHOOK: has no effect without ADMIN_TOKENS or ACCESS_TEAM, because alerts need the control plane"];
  }
  const unused = ["ALERT_SECRET", "ALERT_KEYS"] as const satisfies VariableName[];
  return unused
    .filter((variable) => isSet(env[variable]))
    .map((variable) => `${variable}: has no effect without ALERT_WEBHOOK`);
}

/** Whether the host is this machine, so that no one on a network path can read a request. */
const isLocalHost = (host: string): boolean => /^(?:(?:.+\.)?localhost|127\.0\.0\.1|\[::1\])$/.test(host);

function readWebhook(value: unknown, report: ReportProblem): URL | null {
  if (!isSet(value)) return null;
  const url = typeof value === "string" && URL.canParse(value) ? new URL(value) : null;
  const isSafe = url?.protocol === "https:" || (url?.protocol === "http:" && isLocalHost(url.hostname));
  // `fetch` rejects a URL with credentials.
  if (url !== null && isSafe && `${url.username}${url.password}` === "") return url;
  const accepted = "an https URL without credentials that accepts a POST, or an http URL of localhost";
  // The paths of many webhooks are secrets.
  report({ variable: "ALERT_WEBHOOK", field: "", value: hidden, accepted });
  return null;
}

function readSecret(value: unknown, report: ReportProblem): Uint8Array<ArrayBuffer> | null {
  if (!isSet(value)) return null;
  const [, base64 = ""] =
    /^(?:whsec_)?((?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)$/.exec(
      typeof value === "string" ? value.trim() : "",
    ) ?? [];
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  if (bytes.length >= leastSecretBytes && bytes.length <= mostSecretBytes) return bytes;
  const accepted =
    `${leastSecretBytes} to ${mostSecretBytes} random bytes in base64, with or without "whsec_" before them, ` +
    "such as `openssl rand -base64 32` prints";
  report({ variable: "ALERT_SECRET", field: "", value: hidden, accepted });
  return null;
}

function readShare(value: unknown, report: ReportProblem): number {
  if (!isSet(value)) return defaultShare;
  const [, percent] = /^\s*(\d{1,3}(?:\.\d+)?)\s*%\s*$/.exec(String(value)) ?? [];
  const share = Number(percent) / 100;
  if (share > 0 && share <= 1) return share;
  const accepted = 'a percentage above 0 and up to 100, such as "20%"';
  report({ variable: "ALERT_DENIED_SHARE", field: "", value, accepted });
  return defaultShare;
}

function readPolicyNames(
  env: KnownVariables,
  policies: readonly string[] | null,
  report: ReportProblem,
): ReadonlySet<string> {
  const accepted = "the name of a policy, or a list of names";
  const texts = readTexts("ALERT_KEYS", env, accepted, report) ?? [];
  const names = texts.flatMap((text) => text.split(",")).map((name) => name.trim());
  const unknown = names.find((name) => policies?.includes(name) === false);
  if (unknown !== undefined) {
    const value = unknown;
    report({ variable: "ALERT_KEYS", field: "", value, accepted: `names of your policies` });
  }
  return new Set(names);
}
