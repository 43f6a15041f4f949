/** The names that logs give to the fields of a request, in the order in which they are tried, and the texts in these fields. */
import { fieldName, type LogFieldName, nestedName } from "./log-line.ts";
import { scalarText } from "../../policy/request.ts";

const namesOf = (text: string): readonly LogFieldName[] => text.split(" ").map(fieldName);

/**
 * Names that only one format uses come before common names. Traefik's `time` is only the second in which the line was
 * written. nginx writes `msec` in addition to its times in whole seconds. `date` is last, because it can be a day
 * without a time.
 */
export const timeFields = namesOf(
  "timestamp(ms) startutc startlocal time timestamp @timestamp ts datetime msec time_iso8601 time_local start_time starttime edgestarttimestamp eventtimestamp eventtimestampms date",
);

/** The field with the date in formats whose time is a time of day. */
export const dateField = fieldName("date");

export const statusFields = [
  ...namesOf(
    "status sc-status status_code statuscode response_code responsecode response_status responsestatus edgeresponsestatus downstreamstatus response.status",
  ),
  nestedName("event", "response", "status"),
  nestedName("$workers", "event", "response", "status"),
];

/** Workers Logs writes one record of this type for each request. Log messages have records of other types. */
export const recordTypeField = nestedName("$metadata", "type");
export const requestRecord = "cf-worker-event";

export const costFields = namesOf("cost units weight");

const addresses =
  "client_ip clientip c-ip remote_addr remote_ip remoteaddr remoteip client_address clientaddress clienthost remote_host source_ip";

export const forwardedFields = [
  nestedName("headers", "x-forwarded-for"),
  nestedName("request_headers", "x-forwarded-for"),
  nestedName("requestheaders", "x-forwarded-for"),
  ...namesOf("http_x_forwarded_for x_forwarded_for x-forwarded-for request_x-forwarded-for"),
];
/** The peer of Envoy's connection, which may be a proxy and not the client. */
const connectionFields = namesOf("downstream_remote_address");
const ownHeader = nestedName("headers", "cf-connecting-ip");

/** The fields that identify the client, for a command without key parts. */
export const keyFields = [
  ...namesOf(`key ip ${addresses} client user user_id userid`),
  ownHeader,
  ...forwardedFields,
  ...connectionFields,
];

/** The fields with the value of each key part. Where a proxy wrote the log, Cloudflare's own header has the client. */
export const partFields = {
  ip: [
    ownHeader,
    ...namesOf(`cf_connecting_ip http_cf_connecting_ip clientip ip ${addresses} client`),
    ...forwardedFields,
    ...connectionFields,
  ],
  method: namesOf("clientrequestmethod method request_method http_method requestmethod cs-method request"),
  host: namesOf(
    "clientrequesthost x-host-header host http_host server_name hostname authority requesthost cs(host) url request_url requesturl request",
  ),
  path: namesOf(
    "clientrequestpath path request_path requestpath url_path cs-uri-stem clientrequesturi request_uri uri url request_url requesturl request",
  ),
  country: namesOf("clientcountry country country_code http_cf_ipcountry geoip_country_code c-country cf.country"),
  continent: namesOf("continent cf.continent"),
  asn: namesOf("clientasn asn client_asn cf.asn"),
  colo: namesOf("edgecolocode colo cf.colo"),
} as const;

/** Fields with the path and query of a request. */
export const targetFields = namesOf(
  "clientrequesturi request_uri uri url request_url requesturl requestpath path request",
);

/** Fields with the query alone. */
export const queryFields = namesOf("args query_string query cs-uri-query");

const ownHeaderFields: Readonly<Record<string, string>> = {
  "user-agent": "clientrequestuseragent user_agent useragent",
  referer: "clientrequestreferer referer referrer",
  host: "clientrequesthost",
};

/** The spellings of a header: `headers.x-api-key`, `http_x_api_key` (nginx), `request_X-Api-Key` (Traefik) and others. */
export function headerFields(header: string): readonly LogFieldName[] {
  const snake = header.replaceAll("-", "_");
  const own = ownHeaderFields[header];
  return [
    nestedName("requestheaders", header),
    nestedName("headers", header),
    nestedName("request_headers", header),
    nestedName(`http_${snake}`),
    nestedName(`request_${header}`),
    nestedName(header),
    nestedName(snake),
    nestedName(`cs(${header})`),
    ...(own === undefined ? [] : namesOf(own)),
  ];
}

export const cookieFields = (cookie: string): readonly LogFieldName[] => [
  nestedName("cookies", cookie),
  nestedName(`cookie_${cookie}`),
];

/** Values that servers write in place of a missing one. Caddy replaces credentials. */
export const placeholders: ReadonlySet<unknown> = new Set(["", "-", "REDACTED"]);

export const upperText = (value: unknown): string | null => scalarText(value)?.toUpperCase() ?? null;

export const acceptedHeader = "one value without a comma, since Headgate regards any other as missing";

export function headerText(value: unknown): string | null {
  const [first, ...others]: readonly unknown[] = Array.isArray(value) ? value : [value];
  const text = others.length > 0 ? null : scalarText(first);
  return text?.includes(",") === true ? null : text;
}

/** A request line such as `GET /login HTTP/1.1`. */
const requestLine = /^([A-Za-z]+) (\S+)(?: HTTP\/[\d.]+)?$/;

export const methodText = (value: unknown): string | null => {
  const text = scalarText(value);
  return text === null || !text.includes(" ") ? text : (requestLine.exec(text)?.[1] ?? null);
};

const authority = /^[a-z][a-z\d+.-]*:\/\/([^/?#]*)/i;

/** The path and query of a request line or of a URL. */
export function targetText(value: unknown): string | null {
  const text = scalarText(value);
  const target = text?.includes(" ") === true ? requestLine.exec(text)?.[2] : text;
  return target?.replace(authority, "") ?? null;
}

export function pathText(value: unknown): string | null {
  const path = targetText(value)?.replace(/[?#].*$/s, "");
  return path === undefined || path === "*" ? null : path === "" ? "/" : path;
}

/** The host of a host field or a URL, without its port. Empty for a path. */
export function hostText(value: unknown): string | null {
  const text = scalarText(value);
  const target = text?.includes(" ") === true ? (requestLine.exec(text)?.[2] ?? "") : text;
  const host = target?.includes("/") === true ? (authority.exec(target)?.[1] ?? "") : target;
  return host?.replace(/^.*@/, "").replace(/:\d{1,5}$/, "") ?? null;
}
