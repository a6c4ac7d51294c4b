# Logistic regression on Fisher's Iris flowers (1936), in plain awk: the twin of
# iris.py for machines without Python. It prints the same curves. exp and log
# are its own, since small awks are built without them.
#
# Settings by environment: STEPS (default 120) and PAUSE in seconds (default 0.15).

function exp_(x,    n, i, term, sum) {
	for (n = 0; x < -0.5 || x > 0.5; n++) x /= 2
	term = sum = 1
	for (i = 1; i < 15; i++) { term *= x / i; sum += term }
	while (n-- > 0) sum *= sum
	return sum
}

function log_(x,    i, y) { # Newton's way to the y with exp(y) = x
	y = 0
	while (x < 0.5) { x *= 2.718281828459045; y -= 1 }
	while (x > 1.5) { x /= 2.718281828459045; y += 1 }
	return y + log_near_1(x)
}

function log_near_1(x,    i, y) {
	y = x - 1
	for (i = 0; i < 3; i++) y += 2 * (x - exp_(y)) / (x + exp_(y))
	return y
}

function sqrt_(x,    i, y) {
	y = x > 1 ? x : 1
	for (i = 0; i < 60; i++) y = (y + x / y) / 2
	return y
}

# Python's round to 6 digits and its shortest form of the number.
function num(v,    s) {
	s = sprintf("%.6f", v)
	sub(/0+$/, "", s)
	sub(/\.$/, ".0", s)
	return s
}

function predict(m, i,    k, j, s, top, total) {
	for (k = 0; k < 3; k++) {
		s = 0
		for (j = 0; j < 5; j++) s += W[m, k, j] * X[i, j]
		P[k] = s
		if (k == 0 || s > top) top = s
	}
	total = 0
	for (k = 0; k < 3; k++) { P[k] = exp_(P[k] - top); total += P[k] }
	for (k = 0; k < 3; k++) P[k] /= total
}

function best(    k, b) {
	b = 0
	for (k = 1; k < 3; k++) if (P[k] > P[b]) b = k
	return b
}

function measure(m, held,    i, n, hits) {
	Loss = hits = n = 0
	for (i = 0; i < 150; i++) {
		if ((i % 5 == 0) != held) continue
		predict(m, i)
		Loss -= log_(P[Y[i]])
		hits += best() == Y[i]
		n++
	}
	Loss /= n
	Accuracy = hits / n
}

function descend(m, rate,    i, k, j, e, n, g) {
	for (k = 0; k < 3; k++) for (j = 0; j < 5; j++) G[k, j] = 0
	n = 0
	for (i = 0; i < 150; i++) {
		if (i % 5 == 0) continue
		predict(m, i)
		n++
		for (k = 0; k < 3; k++) {
			e = P[k] - (k == Y[i])
			for (j = 0; j < 5; j++) G[k, j] += e * X[i, j]
		}
	}
	for (k = 0; k < 3; k++) for (j = 0; j < 5; j++) W[m, k, j] -= rate * G[k, j] / n
}

function load(    f, n, i, j, s, q) {
	n = split(flowers(), f, " ")
	for (i = 0; i < n; i++) {
		Y[i] = int(i / 50)
		X[i, 0] = 1
		for (j = 0; j < 4; j++) X[i, j + 1] = substr(f[i + 1], 2 * j + 1, 2) + 0
	}
	for (j = 1; j < 5; j++) {
		s = q = 0
		for (i = 0; i < n; i++) s += X[i, j]
		s /= n
		for (i = 0; i < n; i++) q += (X[i, j] - s) * (X[i, j] - s)
		q = sqrt_(q / n)
		for (i = 0; i < n; i++) X[i, j] = (X[i, j] - s) / q
	}
}

BEGIN {
	steps = ENVIRON["STEPS"] == "" ? 120 : ENVIRON["STEPS"] + 0
	pause = ENVIRON["PAUSE"] == "" ? "0.15" : ENVIRON["PAUSE"] + 0
	load()
	print "120 flowers to learn from, 30 held back"
	print "{\"chart_config\":{\"charts\":[{\"title\":\"Loss\",\"type\":\"line\",\"metrics\":[\"loss\",\"val_loss\"]},{\"title\":\"Accuracy\",\"type\":\"line\",\"metrics\":[\"accuracy\",\"val_accuracy\"]}]}}"
	split("slow fast", name, " ")
	rate[1] = 0.1; rate[2] = 1
	for (n = 1; n <= steps; n++) {
		for (m = 1; m <= 2; m++) {
			descend(m, rate[m])
			measure(m, 0); loss = Loss; accuracy = Accuracy
			measure(m, 1)
			printf "{\"step\":%d,\"metrics\":{\"loss\":%s,\"accuracy\":%s,\"val_loss\":%s,\"val_accuracy\":%s},\"run\":\"%s\"}\n", n, num(loss), num(accuracy), num(Loss), num(Accuracy), name[m]
		}
		if (n % 40 == 0) printf "step %d of %d\n", n, steps
		fflush()
		if (pause + 0 > 0) system("sleep " pause)
	}
	for (i = 0; i < 150; i += 5) { predict(2, i); T[Y[i], best()]++ }
	table = ""
	for (k = 0; k < 3; k++) {
		right += T[k, k]
		table = table (k ? ",[" : "[") (T[k, 0] + 0) "," (T[k, 1] + 0) "," (T[k, 2] + 0) "]"
	}
	printf "{\"log\":{\"type\":\"confusion_matrix\",\"step\":%d,\"key\":\"held back\",\"data\":{\"labels\":[\"setosa\",\"versicolor\",\"virginica\"],\"matrix\":[%s]}}}\n", steps, table
	printf "%d of 30 held-back flowers named right\n", right
}

# 150 flowers, 50 of each species: sepal length and width, petal length and
# width in millimetres, two digits each.
function flowers(    s) {
	s = s " 51351402 49301402 47321302 46311502 50361402 54391704 46341403 50341502 44291402 49311501"
	s = s " 54371502 48341602 48301401 43301101 58401202 57441504 54391304 51351403 57381703 51381503"
	s = s " 54341702 51371504 46361002 51331705 48341902 50301602 50341604 52351502 52341402 47321602"
	s = s " 48311602 54341504 52411501 55421402 49311502 50321202 55351302 49361401 44301302 51341502"
	s = s " 50351303 45231303 44321302 50351606 51381904 48301403 51381602 46321402 53371502 50331402"
	s = s " 70324714 64324515 69314915 55234013 65284615 57284513 63334716 49243310 66294613 52273914"
	s = s " 50203510 59304215 60224010 61294714 56293613 67314414 56304515 58274110 62224515 56253911"
	s = s " 59324818 61284013 63254915 61284712 64294313 66304414 68284814 67305017 60294515 57263510"
	s = s " 55243811 55243710 58273912 60275116 54304515 60344516 67314715 63234413 56304113 55254013"
	s = s " 55264412 61304614 58264012 50233310 56274213 57304212 57294213 62294313 51253011 57284113"
	s = s " 63336025 58275119 71305921 63295618 65305822 76306621 49254517 73296318 67255818 72366125"
	s = s " 65325120 64275319 68305521 57255020 58285124 64325323 65305518 77386722 77266923 60225015"
	s = s " 69325723 56284920 77286720 63274918 67335721 72326018 62284818 61304918 64285621 72305816"
	s = s " 74286119 79386420 64285622 63285115 61265614 77306123 63345624 64315518 60304818 69315421"
	s = s " 67315624 69315123 58275119 68325923 67335725 67305223 63255019 65305220 62345423 59305118"
	return s
}
