/** The variables of the admin API and of alerts, which both need the control plane. */
import { normalizedHost } from "../match.ts";
import { asText } from "../../validation/problems.ts";
import { type AdminToken, readAdminTokens, tokenTexts } from "./secrets.ts";
import type { KnownVariables, VariableName } from "./known-variables.ts";
import { isSet, urlIn, type VariableForm, VariableReader, type Variables } from "./variables.ts";

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

/** The path in `CHECK_PATH` or `ADMIN_PATH`, at and below which requests are not forwarded. */
export function readPath(reader: VariableReader, variable: "CHECK_PATH" | "ADMIN_PATH"): string {
  const fallback = variable === "CHECK_PATH" ? "/check" : "/_headgate";
  return reader.setting(variable, fallback, {
    read: (value) => (/^(?:\/(?!\.\.?(?:\/|$))[a-z0-9_.-]+)+$/i.test(asText(value)) ? asText(value) : undefined),
    accepted: `a path such as "${fallback}" of letters, digits, "_", "." and "-", without a slash at its end`,
  });
}

/** Whether the variables have credentials for the admin API, without which there is no control plane. */
const hasAdminCredentials = (env: KnownVariables): boolean => isSet(env.ADMIN_TOKENS) || isSet(env.ACCESS_TEAM);

/** Null without credentials. */
export function readAdmin(reader: VariableReader, checkPath: string): AdminSettings | null {
  const { env } = reader;
  const hasCredentials = hasAdminCredentials(env);
  const settings = {
    path: readPath(reader, "ADMIN_PATH"),
    host: readHost(reader),
    tokens: readAdminTokens(reader),
    access: readAccess(reader),
    reveal: reader.setting("REVEAL", false, reveal),
  };
  if (hasCredentials || isSet(env.ADMIN_PATH)) reportOverlap(settings.path, checkPath, reader);
  return hasCredentials ? settings : null;
}

const reveal: VariableForm<boolean> = {
  read: (value) => (value === "off" || value === "admins" ? value === "admins" : undefined),
  accepted: '"off" or "admins"',
};

/** A line if a token is in `ADMIN_TOKENS` and in `CHECK_TOKENS`. */
export function adminWarnings({ ADMIN_TOKENS, CHECK_TOKENS }: KnownVariables): string[] {
  const ofCheck = new Set(tokenTexts(CHECK_TOKENS));
  const isShared = tokenTexts(ADMIN_TOKENS).some((token) => ofCheck.has(token));
  return isShared
    ? ["ADMIN_TOKENS: one of its tokens is also in CHECK_TOKENS, so callers of /check can use the admin API"]
    : [];
}

/** Neither path may be below the other. */
function reportOverlap(path: string, checkPath: string, reader: VariableReader): void {
  const [longer, shorter] = path.length > checkPath.length ? [path, checkPath] : [checkPath, path];
  if (longer !== shorter && !longer.startsWith(`${shorter}/`)) return;
  const accepted = `a path that is not at, above or below CHECK_PATH, which is "${checkPath}"`;
  reader.problem("ADMIN_PATH", path, accepted);
}

const acceptedHost = 'a host such as "admin.example.com" on which nothing is proxied';

function readHost(reader: VariableReader): string | null {
  const { ADMIN_HOST, ACCESS_TEAM } = reader.env;
  if (!isSet(ADMIN_HOST) && isSet(ACCESS_TEAM)) {
    reader.problem("ADMIN_HOST", undefined, `${acceptedHost}, because ACCESS_TEAM is set`);
  }
  return reader.setting("ADMIN_HOST", null, {
    read: hostIn,
    accepted: `${acceptedHost}, without a scheme, port or path`,
  });
}

function hostIn(value: unknown): string | undefined {
  const isHost = typeof value === "string" && /^[a-z0-9-]+(?:\.[a-z0-9-]+)*\.?$/i.test(value);
  const host = isHost ? normalizedHost(value) : "";
  // The URL parser rewrites numbers as addresses, so that no request would have this host.
  return isHost && urlIn(`http://${host}`)?.hostname === host ? host : undefined;
}

const accessDomain = "cloudflareaccess.com";
const acceptedTeam = `the name of a Zero Trust team such as "acme" or "acme.${accessDomain}"`;

function readAccess(reader: VariableReader): AccessSettings | null {
  const { ACCESS_TEAM, ACCESS_AUDIENCE } = reader.env;
  const audiences = reader.texts("ACCESS_AUDIENCE", "the AUD tag of an Access application, or a list of such tags");
  if (!isSet(ACCESS_TEAM)) {
    if (audiences !== null) {
      reader.problem("ACCESS_TEAM", undefined, `${acceptedTeam}, because ACCESS_AUDIENCE is set`);
    }
    return null;
  }
  if (!isSet(ACCESS_AUDIENCE)) {
    const accepted = "the AUD tag of the Access application, because ACCESS_TEAM is set";
    reader.problem("ACCESS_AUDIENCE", undefined, accepted);
  }
  const team = reader.setting("ACCESS_TEAM", null, { read: teamIn, accepted: acceptedTeam });
  return team === null || audiences === null ? null : { teamHost: `${team}.${accessDomain}`, audiences };
}

const teamIn = (value: unknown): string | undefined =>
  /^([a-z0-9](?:[a-z0-9-]*[a-z0-9])?)(?:\.cloudflareaccess\.com)?$/i.exec(asText(value))?.[1]?.toLowerCase();

const leastDenials = 1_000;
const greatestDenials = 100_000;
const defaultDenials = 10_000;

const denials: VariableForm<number | null> = {
  read: (value) => {
    if (value === "off") return null;
    const most = typeof value === "number" || /^\d{1,9}$/.test(asText(value)) ? Number(value) : Number.NaN;
    return Number.isInteger(most) && most >= leastDenials && most <= greatestDenials ? most : undefined;
  },
  accepted: `the most logged denials of each policy, an integer from ${leastDenials} to ${greatestDenials}, or "off"`,
};

export const readMostDenials = (reader: VariableReader): number | null =>
  reader.setting("DENIALS", defaultDenials, denials);

/** For the control plane object. Isolates report an invalid value. */
export const mostDenialsIn = (variables: Variables): number | null =>
  readMostDenials(new VariableReader(variables, () => undefined));

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

/**
 * Null without `ALERT_WEBHOOK`.
 * @param policies the names of all policies; null when they are not known, and `ALERT_KEYS` may name any
 */
export function readAlerts(reader: VariableReader, policies: readonly string[] | null): AlertSettings | null {
  const webhook = reader.setting("ALERT_WEBHOOK", null, webhookForm);
  const secret = reader.setting("ALERT_SECRET", null, signingSecret);
  const deniedShare = reader.setting("ALERT_DENIED_SHARE", 0.2, share);
  const keys = readPolicyNames(reader, policies);
  return webhook === null ? null : { webhook, secret, deniedShare, keys };
}

/** The settings of valid variables. The control plane object reads them; isolates report the problems of invalid ones. */
export function alertSettings(variables: Variables): AlertSettings | null {
  let isValid = true;
  const reader = new VariableReader(variables, () => {
    isValid = false;
  });
  const settings = readAlerts(reader, null);
  return isValid ? settings : null;
}

/** A line for each setting that has no effect. */
export function alertWarnings(env: KnownVariables): string[] {
  if (isSet(env.ALERT_WEBHOOK)) {
    return hasAdminCredentials(env)
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

const webhookForm: VariableForm<URL> = {
  read: (value) => {
    const url = urlIn(value);
    const isSafe = url?.protocol === "https:" || (url?.protocol === "http:" && isLocalHost(url.hostname));
    return isSafe ? url : undefined;
  },
  // `fetch` rejects a URL with credentials.
  accepted: "an https URL without credentials that accepts a POST, or an http URL of localhost",
  // The paths of many webhooks are secrets.
  isSecret: () => true,
};

/** The bounds of Standard Webhooks. */
const leastSecretBytes = 24;
const mostSecretBytes = 64;

const signingSecret: VariableForm<Uint8Array<ArrayBuffer>> = {
  read: (value) => {
    const [, base64 = ""] =
      /^(?:whsec_)?((?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)$/.exec(asText(value).trim()) ?? [];
    const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
    return bytes.length >= leastSecretBytes && bytes.length <= mostSecretBytes ? bytes : undefined;
  },
  accepted:
    `${leastSecretBytes} to ${mostSecretBytes} random bytes in base64, with or without "whsec_" before them, ` +
    "such as `openssl rand -base64 32` prints",
  isSecret: () => true,
};

const share: VariableForm<number> = {
  read: (value) => {
    const [, percent] = /^\s*(\d{1,3}(?:\.\d+)?)\s*%\s*$/.exec(String(value)) ?? [];
    const read = Number(percent) / 100;
    return read > 0 && read <= 1 ? read : undefined;
  },
  accepted: 'a percentage above 0 and up to 100, such as "20%"',
};

function readPolicyNames(reader: VariableReader, policies: readonly string[] | null): ReadonlySet<string> {
  const texts = reader.texts("ALERT_KEYS", "the name of a policy, or a list of names") ?? [];
  const names = texts.flatMap((text) => text.split(",")).map((name) => name.trim());
  const unknown = names.find((name) => policies?.includes(name) === false);
  if (unknown !== undefined) reader.problem("ALERT_KEYS", unknown, "names of your policies");
  return new Set(names);
}
